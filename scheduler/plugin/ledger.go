package plugin

import (
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
	mu   sync.RWMutex // guards pods
	pods map[types.UID]*entry
}

func newLedger() *ledger { return &ledger{pods: map[types.UID]*entry{}} }

func (l *ledger) get(uid types.UID) *entry {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.pods[uid]
}

// put replaces what the pod held before.
func (l *ledger) put(uid types.UID, e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods[uid] = e
}

// putIfAbsent gives the entry that holds in the end.
func (l *ledger) putIfAbsent(uid types.UID, e *entry) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.pods[uid]; old != nil {
		return old
	}
	l.pods[uid] = e
	return e
}

// undo takes back the Reserve call of that generation, and nothing newer.
func (l *ledger) undo(uid types.UID, generation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.pods[uid]; e != nil && e.generation == generation {
		delete(l.pods, uid)
	}
}

// confirm notes that the API server shows the pod bound.
func (l *ledger) confirm(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.pods[uid]; e != nil && e.assumed {
		confirmed := *e
		confirmed.assumed = false
		l.pods[uid] = &confirmed
	}
}

func (l *ledger) remove(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pods, uid)
}

// assumedOn gives the pods of this process on the node that are not yet known
// to be bound.
func (l *ledger) assumedOn(node string) map[types.UID]*entry {
	l.mu.RLock()
	defer l.mu.RUnlock()
	found := map[types.UID]*entry{}
	for uid, e := range l.pods {
		if e.assumed && e.node == node {
			found[uid] = e
		}
	}
	return found
}
