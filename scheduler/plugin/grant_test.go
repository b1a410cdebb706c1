package plugin

import (
	"os"
	"strings"
	"testing"
)

func TestGrantFormIsTheProtocols(t *testing.T) {
	data, err := os.ReadFile("../../protocol/testdata/grant-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(string(data))
	g, err := parseGrant(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.text()
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestHostileGrantsAreRefused(t *testing.T) {
	const uuid = "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
	valid := `{"v":1,"podUID":"u","node":"n","gen":1,"containers":{"c":[{"uuid":"` + uuid +
		`","memMiB":1,"cores":0,"policy":"none","priority":"batch"}]}}`
	if _, err := parseGrant(valid); err != nil {
		t.Fatal(err)
	}
	gpu := valid[strings.Index(valid, "[")+1 : strings.Index(valid, "]")]
	for _, row := range []struct{ text, part string }{
		{"", "grant"},
		{"[]", "grant"},
		{strings.Replace(valid, `"v":1`, `"v":2`, 1), "update Krux"},
		{strings.Replace(valid, `"podUID":"u",`, "", 1), "'podUID'"},
		{strings.Replace(valid, gpu, "", 1), "has 0 GPUs"},
		{strings.Replace(valid, gpu, gpu+","+gpu, 1), "named twice"},
		{strings.Replace(valid, uuid, "GPU-1", 1), "malformed"},
		{strings.Replace(valid, `"memMiB":1`, `"memMiB":0`, 1), "out of range"},
		{strings.Replace(valid, `"memMiB":1`, `"memMiB":-1`, 1), "grant"},
		{strings.Replace(valid, `"memMiB":1`, `"memMiB":16777217`, 1), "out of range"},
		{strings.Replace(valid, `"cores":0`, `"cores":101`, 1), "out of range"},
		{strings.Replace(valid, "none", "nonsense", 1), "balance, fixed, none"},
		{strings.Replace(valid, "batch", "urgent", 1), "latency, normal, batch"},
		{strings.Repeat(" ", maxGrantBytes+1), "larger than"},
	} {
		if _, err := parseGrant(row.text); err == nil || !strings.Contains(err.Error(), row.part) {
			t.Errorf("%.120s: got %v, want an error with %q", row.text, err, row.part)
		}
	}
}

func FuzzParseGrant(f *testing.F) {
	f.Add(`{"v":1,"podUID":"u","node":"n","gen":1,"containers":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		g, err := parseGrant(text)
		if err != nil {
			return
		}
		again, err := g.text()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseGrant(again); err != nil {
			t.Fatal(err)
		}
	})
}
