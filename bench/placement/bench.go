package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"krux.io/krux/tests/controlplane"
)

const (
	workers    = 16
	namespace  = "default"
	gpusOfNode = 8
	gpuMiB     = 81920
	patience   = 3 * time.Minute
)

// podSpec is what a pod asks for.
type podSpec struct {
	resources map[v1.ResourceName]string
	selector  map[string]string
}

func plainPod(i int) podSpec {
	return podSpec{resources: map[v1.ResourceName]string{"cpu": fmt.Sprintf("%dm", 100+50*(i%9)), "memory": "128Mi"}}
}

func gpuPod(i int, gpus, memory, cores string) podSpec {
	spec := plainPod(i)
	spec.resources["krux.io/gpu"] = gpus
	if memory != "" {
		spec.resources["krux.io/gpumem"] = memory
	}
	if cores != "" {
		spec.resources["krux.io/gpucores"] = cores
	}
	return spec
}

func equalPod(i int) podSpec { return gpuPod(i, "1", "20000", "25") }

func mixedPod(i int) podSpec {
	mix := [][3]string{
		{"1", "8000", "10"}, {"1", "20000", "25"}, {"1", "40000", "50"}, {"1", "10000", ""}, {"2", "16000", "20"},
		{"1", "", ""}, {"1", "4000", "5"}, {"1", "60000", "70"}, {"2", "", ""},
	}
	m := mix[i%len(mix)]
	return gpuPod(i, m[0], m[1], m[2])
}

func oneNodePod(i int) podSpec {
	spec := gpuPod(i, "1", "5000", "6")
	spec.selector = map[string]string{"bench": "n0"}
	return spec
}

type bench struct {
	plane    *controlplane.Plane
	client   *kubernetes.Clientset
	dynamic  *dynamic.DynamicClient
	config   string
	sequence int
	profile  string // folder for CPU profiles, or empty
}

// takeProfile writes the scheduler's CPU profile of the case's first seconds.
func (b *bench) takeProfile(c testCase) {
	const seconds = 4
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Get(fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", b.plane.SchedulerURL, seconds))
	if err != nil {
		return
	}
	defer answer.Body.Close()
	name := strings.NewReplacer(" ", "-", ",", "").Replace(c.name) + ".pprof"
	if data, err := io.ReadAll(answer.Body); err == nil {
		_ = os.WriteFile(filepath.Join(b.profile, name), data, 0o644)
	}
}

func newBench(plane *controlplane.Plane) (*bench, error) {
	client, err := kubernetes.NewForConfig(plane.Config("admin"))
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(plane.Config("admin"))
	if err != nil {
		return nil, err
	}
	config, err := plane.SchedulerConfig()
	return &bench{plane: plane, client: client, dynamic: dyn, config: config}, err
}

// each runs work for 0..count-1 by several workers and gives an error of one.
func each(count int, work func(i int) error) error {
	var wait sync.WaitGroup
	errs := make([]error, workers)
	for worker := range workers {
		wait.Go(func() {
			for i := worker; i < count && errs[worker] == nil; i += workers {
				errs[worker] = work(i)
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

var kruxNodes = schema.GroupVersionResource{Group: "krux.io", Version: "v1alpha1", Resource: "kruxnodes"}

func (b *bench) makeNodes(ctx context.Context, count int) error {
	return each(count, func(i int) error {
		name := fmt.Sprintf("n%d", i)
		list := v1.ResourceList{}
		for resourceName, amount := range map[v1.ResourceName]string{
			"cpu": "128", "memory": "1Ti", "pods": "220", "krux.io/gpu": "512",
			"krux.io/gpumem": fmt.Sprint(gpusOfNode * gpuMiB), "krux.io/gpumem-percentage": "800", "krux.io/gpucores": "800",
			"krux.io/gpumem-total": fmt.Sprint(gpusOfNode * gpuMiB), "krux.io/gpucores-total": "800",
		} {
			list[resourceName] = resource.MustParse(amount)
		}
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"bench": name, "kubernetes.io/hostname": name}}}
		node.Status.Capacity, node.Status.Allocatable = list, list
		if _, err := b.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return err
		}
		gpus := []any{}
		for gpu := range gpusOfNode {
			gpus = append(gpus, map[string]any{"uuid": fmt.Sprintf("GPU-%08x-0000-0000-0000-%012x", i, gpu),
				"model": "bench", "memoryMiB": int64(gpuMiB), "healthy": true})
		}
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "krux.io/v1alpha1", "kind": "KruxNode",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"gpus": gpus}}}
		_, err := b.dynamic.Resource(kruxNodes).Create(ctx, object, metav1.CreateOptions{})
		return err
	})
}

// run measures one case: a fresh scheduler, warmed up by a pod of each kind.
func (b *bench) run(ctx context.Context, c testCase, count int) (measure, error) {
	config := b.config
	if !c.plugin {
		config = withoutPlugin(config)
	}
	if err := b.plane.StartScheduler(config); err != nil {
		return measure{}, err
	}
	defer b.plane.KillScheduler()
	const warmUp = 18
	if _, err := b.place(ctx, c, warmUp); err != nil {
		return measure{}, fmt.Errorf("warming up: %w", err)
	}
	if err := b.clear(ctx); err != nil {
		return measure{}, err
	}
	before, err := b.writes(ctx)
	if err != nil {
		return measure{}, err
	}
	cpu := cpuTime(b.plane.SchedulerPID())
	if b.profile != "" {
		go b.takeProfile(c)
	}
	took, err := b.place(ctx, c, count)
	if err != nil {
		return measure{}, err
	}
	m := measure{seconds: took.Seconds(), rate: float64(count) / took.Seconds()}
	m.cpu = float64((cpuTime(b.plane.SchedulerPID()) - cpu).Microseconds()) / 1000 / float64(count)
	if m.writes, m.writesText, err = b.writesSince(ctx, before, count); err != nil {
		return m, err
	}
	return m, b.clear(ctx)
}

// place creates pods and waits until all are bound.
func (b *bench) place(ctx context.Context, c testCase, count int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	bound, err := b.watchBound(ctx)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	failed := make(chan error, 1)
	b.sequence++
	round := b.sequence
	go func() {
		if err := each(count, func(i int) error { return b.create(ctx, round, i, c.pods(i)) }); err != nil {
			failed <- err
		}
	}()
	seen := map[string]bool{}
	for len(seen) < count {
		select {
		case err := <-failed:
			return 0, err
		case <-ctx.Done():
			return 0, fmt.Errorf("%d of %d pods are bound: %w", len(seen), count, ctx.Err())
		case name := <-bound:
			seen[name] = true
		}
	}
	return time.Since(begin), nil
}

// watchBound gives the names of bound pods as they appear, until ctx ends. An
// informer: the API server ends a watch whose reader is slow.
func (b *bench) watchBound(ctx context.Context) (<-chan string, error) {
	bound := make(chan string, 1<<16)
	tell := func(object any) {
		if pod, ok := object.(*v1.Pod); ok && pod.Spec.NodeName != "" {
			bound <- pod.Name
		}
	}
	factory := informers.NewSharedInformerFactory(b.client, 0)
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, now any) { tell(now) }})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, ctx.Err()
	}
	return bound, nil
}

func (b *bench) create(ctx context.Context, round, i int, spec podSpec) error {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("r%d-p%d", round, i), Namespace: namespace}}
	pod.Spec.NodeSelector = spec.selector
	list := v1.ResourceList{}
	for name, amount := range spec.resources {
		list[name] = resource.MustParse(amount)
	}
	pod.Spec.Containers = []v1.Container{{Name: "main", Image: "none", Resources: v1.ResourceRequirements{Limits: list, Requests: list}}}
	_, err := b.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// clear removes all pods and waits until the scheduler has had time to see it.
func (b *bench) clear(ctx context.Context) error {
	pods, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	now := int64(0)
	return each(len(pods.Items), func(i int) error {
		return b.client.CoreV1().Pods(namespace).Delete(ctx, pods.Items[i].Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
}

// row is one line of bench/results.
type row struct {
	ID      string  `json:"id"`
	Case    string  `json:"case"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Goal    string  `json:"goal"`
	Command string  `json:"command"`
	Machine string  `json:"machine"`
	Date    string  `json:"date"`
}

func appendRows(o options, rows []row) error {
	folder := filepath.Join(o.root, "bench/results", filepath.Base(o.record))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var text strings.Builder
	for _, r := range rows {
		r.Command = fmt.Sprintf("bench/placement/run --nodes %d --pods %d --rounds %d --record %s", o.nodes, o.pods, o.rounds, o.record)
		r.Machine, r.Date = o.record, time.Now().UTC().Format(time.RFC3339)
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		text.Write(append(line, '\n'))
	}
	file, err := os.OpenFile(filepath.Join(folder, "placement.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(text.String())
	return err
}
