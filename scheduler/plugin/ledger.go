package plugin

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// podShare is what a pod occupies of one GPU.
type podShare struct {
	uuid string
	share
}

// entry is what one pod holds on one node.
type entry struct {
	node   string
	shares []podShare // empty for a grant that is not valid: such a pod gets no GPU
	grant  string     // the annotation's text
	// generation of the Reserve call that made it; 0 = read from the annotation.
	generation uint64
	// assumed until the API server has shown the pod bound with this grant.
	assumed bool
}

// ledger knows the shares of pods: of those that this process placed, from
// Reserve on, and of all others that it has met, from their grants. Entries are
// immutable. All methods may be called from any goroutine.
type ledger struct {
	mu      sync.RWMutex // guards the following
	pods    map[types.UID]*entry
	assumed map[string]map[types.UID]*entry // by node: those not yet known to be bound
}

func newLedger() *ledger {
	return &ledger{pods: map[types.UID]*entry{}, assumed: map[string]map[types.UID]*entry{}}
}

// set replaces the entry; nil removes it. l.mu is held.
func (l *ledger) set(uid types.UID, e *entry) {
	if old := l.pods[uid]; old != nil && old.assumed {
		delete(l.assumed[old.node], uid)
		if len(l.assumed[old.node]) == 0 {
			delete(l.assumed, old.node)
		}
	}
	if e == nil {
		delete(l.pods, uid)
		return
	}
	l.pods[uid] = e
	if e.assumed {
		if l.assumed[e.node] == nil {
			l.assumed[e.node] = map[types.UID]*entry{}
		}
		l.assumed[e.node][uid] = e
	}
}

func (l *ledger) get(uid types.UID) *entry {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.pods[uid]
}

// put replaces what the pod held before.
func (l *ledger) put(uid types.UID, e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(uid, e)
}

// putIfAbsent gives the entry that holds in the end.
func (l *ledger) putIfAbsent(uid types.UID, e *entry) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.pods[uid]; old != nil {
		return old
	}
	l.set(uid, e)
	return e
}

// undo takes back the Reserve call of that generation, and nothing newer.
func (l *ledger) undo(uid types.UID, generation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.pods[uid]; e != nil && e.generation == generation {
		l.set(uid, nil)
	}
}

// confirm notes that the API server shows the pod bound.
func (l *ledger) confirm(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.pods[uid]; e != nil && e.assumed {
		confirmed := *e
		confirmed.assumed = false
		l.set(uid, &confirmed)
	}
}

func (l *ledger) remove(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(uid, nil)
}

// keepOnly removes entries, but not assumed ones, of pods that are not there:
// those whose deletion this process did not see. It gives their number.
func (l *ledger) keepOnly(there map[types.UID]bool) (gone int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, e := range l.pods {
		if !e.assumed && !there[uid] {
			l.set(uid, nil)
			gone++
		}
	}
	return gone
}

// assumedOn gives the pods of this process on the node that are not yet known
// to be bound. The map is the caller's.
func (l *ledger) assumedOn(node string) map[types.UID]*entry {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return maps.Clone(l.assumed[node])
}
