package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// clockTick is USER_HZ, which is 100 on every Linux of today.
const clockTick = 10 * time.Millisecond

// cpuTime of a process, user and system, from /proc/PID/stat; 0 when unreadable.
func cpuTime(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	const userTime, systemTime = 11, 12 // counted from the state on
	if len(fields) <= systemTime {
		return 0
	}
	user, _ := strconv.ParseInt(fields[userTime], 10, 64)
	system, _ := strconv.ParseInt(fields[systemTime], 10, 64)
	return time.Duration(user+system) * clockTick
}

var (
	requestLine = regexp.MustCompile(`^apiserver_request_total\{(.*)\} ([0-9.e+]+)$`)
	label       = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// writes counts the API server's write requests so far by resource; leases and
// what the bench itself deletes are left out.
func (b *bench) writes(ctx context.Context) (map[string]float64, error) {
	text, err := b.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	counts := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		match := requestLine.FindStringSubmatch(strings.TrimSpace(line))
		if match == nil {
			continue
		}
		labels := map[string]string{}
		for _, pair := range label.FindAllStringSubmatch(match[1], -1) {
			labels[pair[1]] = pair[2]
		}
		switch labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY":
			name := labels["resource"]
			if labels["subresource"] != "" {
				name += "/" + labels["subresource"]
			}
			if value, err := strconv.ParseFloat(match[2], 64); err == nil && name != "leases" && !strings.HasSuffix(name, "reviews") {
				counts[name] += value
			}
		}
	}
	return counts, nil
}

// writesSince waits for the pods' events, which come last, and a moment more
// for what should not come.
func (b *bench) writesSince(ctx context.Context, before map[string]float64, pods int) (float64, string, error) {
	var now map[string]float64
	var err error
	for range 100 {
		if now, err = b.writes(ctx); err != nil {
			return 0, "", err
		}
		if now["events"]-before["events"] >= float64(pods) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	total, parts := 0.0, []string{}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if each := (now[name] - before[name]) / float64(pods); each >= 0.01 {
			total += each
			parts = append(parts, fmt.Sprintf("%s %.2f", name, each))
		}
	}
	return total, strings.Join(parts, ", "), nil
}
