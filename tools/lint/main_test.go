package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestFindings(t *testing.T) {
	dir := module(t, map[string]string{
		"go.mod":           "module example.com/m\n\ngo 1.26.0\n",
		"staticcheck.conf": "checks = [\"all\", \"-ST1000\", \"-ST1003\"]\n",

		// Facts about these are needed in other packages.
		"low/low.go": `package low

import "fmt"

// Logf prints.
func Logf(format string, args ...any) { fmt.Printf(format, args...) }

// Old is old.
//
// Deprecated: use Logf.
func Old() {}

// Fail does not return.
func Fail() { panic("failed") }

// Under_Score has a name that the configuration allows.
func Under_Score() {}
`,
		"high/high.go": `package high

import (
	"os"
	"os/signal"
	"strings"
	"sync"

	"example.com/m/low"
)

// Point is a point.
type Point struct{ x int }

// Use uses low.
func Use(p *Point, n int, mu sync.Mutex) int { // want copylocks
	low.Logf("%s", n) // want printf
	low.Old() // want SA1019
	if p == nil {
		low.Fail()
	}
	if n > 0 {
		strings.ToUpper("a") // want SA4017
	}
	return p.x
}

// Notify waits.
func Notify() {
	c := make(chan os.Signal)
	signal.Notify(c) // want sigchanyzer SA1017
	<-c
}

func unused() {} // want U1000

func usedInTest() {}
`,
		"high/high_test.go": `package high

import "testing"

func TestUsed(t *testing.T) {
	usedInTest()
	go func() { // want SA2002
		t.Fatal("") // want testinggoroutine
	}()
}

func unusedInTest() {} // want U1000
`,
		"high/x_test.go": `package high_test

import (
	"testing"

	"example.com/m/high"
	"example.com/m/low"
)

func TestUse(t *testing.T) {
	low.Logf("%d", "a") // want printf
	var _ = high.Point{}
	//lint:ignore SA1019 nothing is ignored // want lint
	low.Old() // want SA1019
}

func Testlower(t *testing.T) {} // want tests
`,
		"high/other_windows.go": "package high\n\n//go:build windows // want buildtag\n",
	})
	want := map[string]bool{}
	for _, name := range []string{"high/high.go", "high/high_test.go", "high/x_test.go", "high/other_windows.go"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			_, checks, _ := strings.Cut(line, "// want ")
			for _, check := range strings.Fields(checks) {
				want[fmt.Sprintf("%s:%d %s", name, i+1, check)] = true
			}
		}
	}
	found, err := check(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		name, err := filepath.Rel(dir, f.at.Filename)
		if err != nil {
			t.Fatal(err)
		}
		place := fmt.Sprintf("%s:%d %s", filepath.ToSlash(name), f.at.Line, f.check)
		if !want[place] {
			t.Errorf("found %s: %s", place, f.message)
		}
		delete(want, place)
	}
	for place := range want {
		t.Errorf("did not find %s", place)
	}
}

func TestAPackageThatDoesNotBuildIsAnError(t *testing.T) {
	dir := module(t, map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26.0\n", "m.go": "package m\n", "m_test.go": "package m\n\nvar _ = missing\n",
	})
	if _, err := check(dir); err == nil || !strings.Contains(err.Error(), "m_test.go:3:9: undefined: missing") {
		t.Errorf("the error is %v", err)
	}
}

func TestEveryCheckOfVetIsOne(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "tool", "vet", "help").CombinedOutput()
	if err != nil {
		t.Fatalf("go tool vet help: %v\n%s", err, out)
	}
	_, list, _ := strings.Cut(string(out), "Registered analyzers:\n\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var theirs, ours []string
	for _, m := range regexp.MustCompile(`(?m)^    (\w+) `).FindAllStringSubmatch(list, -1) {
		theirs = append(theirs, m[1])
	}
	for _, a := range vet {
		ours = append(ours, a.Name)
	}
	slices.Sort(theirs)
	slices.Sort(ours)
	if !slices.Equal(theirs, ours) {
		t.Errorf("vet has\n%q, and lint\n%q", theirs, ours)
	}
}

func TestChecksThatTheConfigurationSelectsInOtherWaysAreRefused(t *testing.T) {
	for _, checks := range [][]string{{"SA1000"}, {"all", "SA*"}, {"all", "-SA*"}, {"-ST1000"}, {"all", "SA1000"}} {
		if _, err := chosen(checks); err == nil {
			t.Errorf("%q are taken", checks)
		}
	}
}

func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
