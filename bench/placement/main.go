// Command placement measures how many pods a second krux-scheduler places
// through a real kube-apiserver, and what each costs: goals S4, S5 and S7.
//
//	bench/placement/run [--nodes N] [--pods N] [--rounds N] [--record MACHINE] [--profile FOLDER]
//
// Nodes are API objects of 8 GPUs; there are no kubelets. Each round runs every
// case once, one after another with the same number of pods, so that load from
// elsewhere meets all of them alike; figures are medians over the rounds, and
// ratios are medians of the rounds' own ratios. Pods per second: from the first
// create to the last bind, with creation going on meanwhile.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"krux.io/krux/tests/controlplane"
)

type options struct {
	nodes, pods, rounds int
	record, root        string
	profile             string
}

// measure is what one case of one round gave.
type measure struct {
	rate       float64 // pods per second
	seconds    float64 // first create to last bind
	cpu        float64 // milliseconds of the scheduler's CPU time per pod
	writes     float64 // API writes per pod
	writesText string
}

// testCase is one kind of pod under one configuration of the scheduler.
type testCase struct {
	name   string
	plugin bool
	pods   func(i int) podSpec
	count  func(o options) int
}

func allPods(o options) int { return o.pods }

var cases = []testCase{
	{"plain pods, plugin off", false, plainPod, allPods},
	{"plain pods, plugin on", true, plainPod, allPods},
	{"GPU pods of one size", true, equalPod, allPods},
	{"GPU pods of nine sizes", true, mixedPod, allPods},
	{"100 GPU pods to one node", true, oneNodePod, func(options) int { return 100 }},
}

func main() {
	controlplane.RunAs()
	var o options
	flag.IntVar(&o.nodes, "nodes", 1000, "nodes of 8 GPUs")
	flag.IntVar(&o.pods, "pods", 2000, "pods of each case")
	flag.IntVar(&o.rounds, "rounds", 5, "times that every case runs")
	flag.StringVar(&o.record, "record", "", "name of this machine: append to bench/results/NAME/placement.jsonl")
	flag.StringVar(&o.root, "root", ".", "the repository's folder")
	flag.StringVar(&o.profile, "profile", "", "folder for CPU profiles of the scheduler, one a case")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "placement:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	plane, err := controlplane.New(o.root)
	if plane != nil {
		defer plane.Stop()
	}
	if err != nil {
		return err
	}
	b, err := newBench(plane)
	if err != nil {
		return err
	}
	b.profile = o.profile
	progress("making %d nodes of 8 GPUs", o.nodes)
	if err := b.makeNodes(ctx, o.nodes); err != nil {
		return err
	}
	results := make([][]measure, len(cases))
	for round := range o.rounds {
		for turn := range cases {
			// Another first one each round: nobody has a warmer machine.
			i := (turn + round) % len(cases)
			c := cases[i]
			m, err := b.run(ctx, c, c.count(o))
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			progress("round %d of %d: %-26s %6.0f pods/s", round+1, o.rounds, c.name, m.rate)
			results[i] = append(results[i], m)
		}
	}
	rows := table(results)
	if o.record == "" {
		return nil
	}
	return appendRows(o, rows)
}

func progress(format string, args ...any) {
	fmt.Printf("%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func column(measures []measure, pick func(measure) float64) []float64 {
	var out []float64
	for _, m := range measures {
		out = append(out, pick(m))
	}
	return out
}

func rate(m measure) float64 { return m.rate }

// ratio of two cases, round by round.
func ratio(a, b []measure) float64 {
	var out []float64
	for i := range a {
		out = append(out, a[i].rate/b[i].rate)
	}
	return median(out)
}

// table prints the figures and gives the rows to record.
func table(results [][]measure) []row {
	fmt.Printf("\n%-28s %8s %8s %12s %12s  %s\n", "case", "pods/s", "seconds", "CPU ms/pod", "writes/pod", "which")
	var rows []row
	for i, c := range cases {
		r := results[i]
		seconds, cpu := median(column(r, func(m measure) float64 { return m.seconds })), median(column(r, func(m measure) float64 { return m.cpu }))
		writes := median(column(r, func(m measure) float64 { return m.writes }))
		fmt.Printf("%-28s %8.0f %8.2f %12.2f %12.2f  %s\n", c.name, median(column(r, rate)), seconds, cpu, writes, r[0].writesText)
		rows = append(rows,
			row{ID: "S4", Case: c.name, Value: median(column(r, rate)), Unit: "pods/s", Goal: ""},
			row{ID: "S4", Case: c.name + ": the scheduler's CPU time", Value: cpu, Unit: "ms/pod", Goal: ""},
			row{ID: "S5", Case: c.name + ": API writes", Value: writes, Unit: "writes/pod", Goal: "<= those of a plain pod"})
	}
	last := results[len(cases)-1]
	rows = append(rows,
		row{ID: "S4", Case: cases[2].name + " over plain pods", Value: ratio(results[2], results[1]), Unit: "ratio", Goal: ">= 0.9"},
		row{ID: "S4", Case: cases[3].name + " over plain pods", Value: ratio(results[3], results[1]), Unit: "ratio", Goal: ">= 0.9"},
		row{ID: "S7", Case: "plain pods, plugin on over off", Value: ratio(results[1], results[0]), Unit: "ratio", Goal: ">= 0.95"},
		row{ID: "S5", Case: "100 GPU pods to one node, first create to last bind",
			Value: median(column(last, func(m measure) float64 { return m.seconds })), Unit: "s", Goal: "< 2"})
	fmt.Println()
	for _, r := range rows[len(rows)-4:] {
		fmt.Printf("%s %-52s %6.2f %-6s (goal %s)\n", r.ID, r.Case, r.Value, r.Unit, r.Goal)
	}
	return rows
}

// withoutPlugin removes Krux from the shipped configuration.
func withoutPlugin(config string) string {
	at := strings.Index(config, "    # How nodes are ranked")
	if at < 0 {
		return config
	}
	return config[:at]
}
