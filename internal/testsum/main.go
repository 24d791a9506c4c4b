// Testsum reads the output of `go test -json` from standard input and prints a summary: a line for
// every package, the output of every failed test below the name of its package, every skipped test
// with its reason, and at the end how many tests exercised each real part. Of a package that failed
// it also prints the output of the package itself and of each test that did not end. It exits with 1
// if a test failed or if no test ran; with -strict also if a part was not exercised.
//
//	go test -json ./... | go run ./internal/testsum [-strict] [-part name=package-regexp[:test-regexp]]...
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	var parts partsFlag
	strict := flag.Bool("strict", false, "fail if a part was not exercised")
	flag.Var(&parts, "part", "a real part as `name=package-regexp[:test-regexp]`; may be given many times")
	flag.Parse()
	s, err := read(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	if !s.report(os.Stdout, parts, *strict) {
		os.Exit(1)
	}
}

// part is something real that tests should exercise, such as a storage backend.
type part struct {
	name       string
	pkg, tests *regexp.Regexp
}

type partsFlag []part

func (p *partsFlag) String() string { return fmt.Sprint(len(*p), " parts") }

// Set implements [flag.Value].
func (p *partsFlag) Set(value string) error {
	name, rest, ok := strings.Cut(value, "=")
	if !ok {
		return fmt.Errorf("%q is not name=package-regexp[:test-regexp]", value)
	}
	pkg, test, _ := strings.Cut(rest, ":")
	pkgs, err := regexp.Compile(pkg)
	if err != nil {
		return err
	}
	tests, err := regexp.Compile(test)
	if err != nil {
		return err
	}
	*p = append(*p, part{name: name, pkg: pkgs, tests: tests})
	return nil
}

// event is one line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

// test names a test, or a package if its name is "".
type test struct{ pkg, name string }

// summary is the result of all tests. A test with subtests is counted by its subtests, unless it alone failed.
type summary struct {
	passed, failed, skipped []test
	reason                  map[test]string
	said                    map[test]string // by the failed ones
	broken                  []string        // packages that failed though none of their tests did
}

// read prints packages and failures to out as they are read.
func read(in io.Reader, out io.Writer) (summary, error) {
	s := summary{reason: map[test]string{}, said: map[test]string{}}
	said := map[test]*strings.Builder{}
	parent := map[test]bool{}
	failedIn := map[string]bool{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF && line == "" {
			return s, nil
		} else if err != nil && err != io.EOF {
			return s, err
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			fmt.Fprint(out, line) // not from a test, for example a message of the compiler
			continue
		}
		at := test{e.Package, e.Test}
		switch e.Action {
		case "build-output":
			fmt.Fprint(out, e.Output)
		case "output":
			if said[at] == nil {
				said[at] = &strings.Builder{}
			}
			said[at].WriteString(e.Output)
		case "run":
			if i := strings.LastIndex(e.Test, "/"); i >= 0 {
				parent[test{e.Package, e.Test[:i]}] = true
			}
		case "pass", "fail", "skip":
			if e.Test == "" {
				if e.Action == "fail" {
					if !failedIn[e.Package] {
						s.broken = append(s.broken, e.Package)
					}
					showRest(out, said, e.Package)
				}
				result := map[string]string{"pass": "ok", "fail": "FAIL", "skip": "-"}[e.Action] // -: no tests
				fmt.Fprintf(out, "%-4s  %-60s %6.1fs\n", result, e.Package, e.Elapsed)
			} else {
				s.ended(e.Action, at, parent[at], said[at])
				if e.Action == "fail" {
					failedIn[e.Package] = true
					show(out, at, said[at])
				}
			}
			delete(said, at)
		}
	}
}

func (s *summary) ended(action string, at test, hasSubtests bool, said *strings.Builder) {
	switch {
	case action == "skip":
		s.skipped = append(s.skipped, at)
		if said != nil {
			s.reason[at] = reason(said.String())
		}
	case hasSubtests && (action == "pass" || s.hasFailedSubtest(at)):
	case action == "pass":
		s.passed = append(s.passed, at)
	case action == "fail":
		s.failed = append(s.failed, at)
		if said != nil {
			s.said[at] = excerpt(said.String())
		}
	}
}

func (s *summary) hasFailedSubtest(of test) bool {
	return slices.ContainsFunc(s.failed, func(t test) bool { return t.pkg == of.pkg && strings.HasPrefix(t.name, of.name+"/") })
}

// Limits of an excerpt.
const (
	excerptLines = 60
	excerptWidth = 300 // bytes of a line
)

// excerpt returns the first lines of the output of a test, each indented and cut.
func excerpt(said string) string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(said) {
		if n++; n > excerptLines {
			b.WriteString("      …\n")
			break
		}
		line = strings.TrimSuffix(line, "\n")
		fmt.Fprintf(&b, "    %s\n", line[:min(len(line), excerptWidth)])
	}
	return b.String()
}

// reason returns the output of a skipped test without the lines of the test runner.
func reason(said string) string {
	var kept []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, " ")
}

// showRest prints the output of the package itself and of its unfinished tests: a panic, a race, a
// time limit or an exit ends the process while they run.
func showRest(out io.Writer, said map[test]*strings.Builder, pkg string) {
	var rest []test
	for at := range said {
		if at.pkg == pkg {
			rest = append(rest, at)
		}
	}
	slices.SortFunc(rest, func(a, b test) int { return strings.Compare(a.name, b.name) })
	for _, at := range rest {
		show(out, at, said[at])
		delete(said, at)
	}
}

// show prints the output of a test, or of a package, below its name.
func show(out io.Writer, at test, said *strings.Builder) {
	if said != nil {
		fmt.Fprintf(out, "\n%s %s\n%s", at.pkg, at.name, said)
	}
}

// report prints the summary and reports whether there was no failure.
func (s summary) report(out io.Writer, parts []part, strict bool) bool {
	missing := 0
	if len(s.skipped) > 0 {
		fmt.Fprintln(out, "\nSkipped:")
		for _, t := range s.skipped {
			fmt.Fprintf(out, "  %s %s: %s\n", t.pkg, t.name, s.reason[t])
		}
	}
	if len(parts) > 0 {
		fmt.Fprintln(out, "\nReal parts that were exercised, and by how many tests that passed:")
	}
	for _, p := range parts {
		n := 0
		for _, t := range s.passed {
			if p.pkg.MatchString(t.pkg) && p.tests.MatchString(t.name) {
				n++
			}
		}
		count := fmt.Sprint(n)
		if n == 0 {
			count = "NOT EXERCISED"
			missing++
		}
		fmt.Fprintf(out, "  %-24s %s\n", p.name, count)
	}
	if len(s.failed)+len(s.broken) > 0 {
		fmt.Fprintln(out, "\nFailed:")
		for _, t := range s.failed {
			fmt.Fprintf(out, "  %s %s\n%s", t.pkg, t.name, s.said[t])
		}
		for _, pkg := range s.broken {
			fmt.Fprintf(out, "  %s did not build, or ended by itself\n", pkg)
		}
	}
	if strict = strict && missing > 0; strict {
		fmt.Fprintln(out, "\nEvery part must be exercised, and some were not: see above.")
	}
	failed := len(s.failed) + len(s.broken)
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", len(s.passed), failed, len(s.skipped))
	return failed == 0 && len(s.passed) > 0 && !strict
}
