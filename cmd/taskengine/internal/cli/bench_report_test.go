package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	benchresult "github.com/taskengine/taskengine/bench/result"
)

func TestResultsOfSeveralFilesMakeOnePage(t *testing.T) {
	a := resultsFile(t, 3, 1, nil)
	b := resultsFile(t, 3, 2, func(r *benchresult.Result) { r.Subject.Store = "bolt" })
	page := filepath.Join(t.TempDir(), "page.html")
	r := cli(t, nil, "", "bench", "report", a, b, "--html", page)
	if r.code != 0 || r.stdout != "" || !strings.Contains(r.stderr, "a page of 2 results") {
		t.Fatalf("it ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<!doctype html>", "taskengine · pebble", "taskengine · bolt", "All checks passed in all 6 runs."} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if r := cli(t, nil, "", "bench", "report", a, b, "--html", "-"); r.code != 0 || r.stdout != string(content) || r.stderr != "" {
		t.Errorf("on standard output it is another page; it ends with %d: %s", r.code, r.stderr)
	}
}

func TestPagesThatCannotBeMadeAreExplained(t *testing.T) {
	good := resultsFile(t, 3, 1, nil)
	broken := write(t, "broken.json", "{}")
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no results":             {[]string{"--html", "x.html"}, 2, "RESULTS.json is missing"},
		"no page":                {[]string{good}, 2, "--html FILE is missing"},
		"a file that is nowhere": {[]string{"/nowhere", "--html", "x.html"}, 1, "/nowhere"},
		"a file of none":         {[]string{good, broken, "--html", "x.html"}, 1, "broken.json: read results"},
		"a page in no folder":    {[]string{good, "--html", good + "/x.html"}, 1, "write the page"},
	} {
		t.Run(name, func(t *testing.T) {
			r := cli(t, nil, "", append([]string{"bench", "report"}, c.args...)...)
			if r.code != c.code || !strings.Contains(r.stderr, c.says) || r.stdout != "" {
				t.Errorf("it ends with %d, want %d and %q: %s%s", r.code, c.code, c.says, r.stdout, r.stderr)
			}
		})
	}
}
