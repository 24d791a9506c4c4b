//go:build !race

// Package arch_test has the architecture of the module as tests: the allowed imports
// (rules_test.go), and the forbidden code (rules_code_test.go, source_test.go).
package arch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/taskengine/taskengine"

// pkg is the output of `go list` for a package, with paths relative to the module.
type pkg struct {
	Path     string // "" is the module's root
	Dir      string
	GoFiles  []string
	CgoFiles []string
	Tests    []string // names of test files
	Inside   []string // imports of this module, without imports of tests
	Standard []string // imports of the standard library, likewise
	Outside  []string // all other imports, likewise
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports", "./...")
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l struct {
			ImportPath, Dir                                       string
			GoFiles, CgoFiles, TestGoFiles, XTestGoFiles, Imports []string
		}
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		p := pkg{Path: relative(l.ImportPath), Dir: l.Dir, GoFiles: l.GoFiles, CgoFiles: l.CgoFiles}
		p.Tests = slices.Concat(l.TestGoFiles, l.XTestGoFiles)
		for _, imported := range l.Imports {
			first, _, _ := strings.Cut(imported, "/")
			switch {
			case imported == module || strings.HasPrefix(imported, module+"/"):
				p.Inside = append(p.Inside, relative(imported))
			case strings.Contains(first, "."):
				p.Outside = append(p.Outside, imported)
			default:
				p.Standard = append(p.Standard, imported)
			}
		}
		all = append(all, p)
	}
	if len(all) < 5 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
}

func relative(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

// matches reports whether path is one of the patterns, or below one that ends in "/...".
func matches(path string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		root, below := strings.CutSuffix(p, "/...")
		return path == root || below && strings.HasPrefix(path, root+"/")
	})
}

func ruleOf(path string) (best rule, ok bool) {
	for _, r := range rules {
		if (path == r.Of || strings.HasPrefix(path, r.Of+"/")) && len(r.Of) > len(best.Of) {
			best, ok = r, true
		}
	}
	return best, ok
}

func TestPackagesImportOnlyWhatTheirLayerMay(t *testing.T) {
	for _, p := range packages(t) {
		r, ok := ruleOf(p.Path)
		if !ok {
			continue
		}
		for _, i := range p.Inside {
			if !matches(i, r.May) {
				t.Errorf("%s imports %s; %s, so it may import only %q of this module.\n\tMove the code, or pass in its dependencies; the layers are in internal/arch/rules_test.go.", p.Path, i, r.Why, r.May)
			}
		}
		for _, i := range p.Outside {
			if !slices.ContainsFunc(r.Out, func(m string) bool { return m == "*" || i == m || strings.HasPrefix(i, m+"/") }) {
				t.Errorf("%s imports %s; %s, so it may import only %q from outside.\n\tDo without, or move the code to a package that may.", p.Path, i, r.Why, r.Out)
			}
		}
	}
}

func TestTheOutermostPackagesAreImportedOnlyAsListed(t *testing.T) {
	for _, p := range packages(t) {
		for _, i := range p.Inside {
			for room, by := range onlyBy {
				if matches(i, []string{room + "/..."}) && !matches(p.Path, by) {
					t.Errorf("%s imports %s, which only %q may.", p.Path, i, by)
				}
			}
		}
	}
}

func TestSuitesAreImportedByTestsOnly(t *testing.T) {
	isSuite := func(path string) bool { return strings.HasSuffix(path, "test") }
	campaigns := []string{"bench/pressure"} // run from the sources, on the servers of the tests, and in no release
	for _, p := range packages(t) {
		if isSuite(p.Path) || slices.Contains(campaigns, p.Path) {
			continue
		}
		for _, i := range p.Inside {
			if isSuite(i) {
				t.Errorf("%s imports %s outside of its tests.\n\tImport it from a _test.go file, so that no program carries test code.", p.Path, i)
			}
		}
		if slices.Contains(p.Standard, "testing") {
			t.Errorf("%s imports testing outside of its tests.", p.Path)
		}
	}
}

func TestWhatDecidesImportsNothingThatWaits(t *testing.T) {
	for _, p := range packages(t) {
		if !slices.Contains(deterministic, p.Path) {
			continue
		}
		for _, i := range p.Standard {
			if slices.Contains(forbiddenImports, i) || strings.HasPrefix(i, "net/") && i != "net/url" || strings.HasPrefix(i, "os/") {
				t.Errorf("%s imports %s, but code that decides must neither wait nor look around.\n\tLet the caller do it and pass in the result.", p.Path, i)
			}
		}
	}
}

func TestEveryRuleIsAboutAPackageThatExists(t *testing.T) {
	all := packages(t)
	exists := func(path string) bool {
		return slices.ContainsFunc(all, func(p pkg) bool { return p.Path == path || strings.HasPrefix(p.Path, path+"/") })
	}
	for _, r := range rules {
		if r.Of == "" || r.Why == "" {
			t.Errorf("the rule %+v does not say which packages it is about, or not why", r)
		}
		for _, path := range append([]string{r.Of}, r.May...) {
			if path = strings.TrimSuffix(path, "/..."); !exists(path) {
				t.Errorf("the rule of %s names %s, which does not exist; correct or remove it", r.Of, path)
			}
		}
	}
	if r, _ := ruleOf("engine/internal/core"); r.Of != "engine/internal" {
		t.Errorf("engine/internal/core is under the rule of %q", r.Of)
	}
	if !matches("a/b", []string{"a/..."}) || matches("ab", []string{"a/..."}) || matches("a/b", []string{"a"}) {
		t.Error("patterns are matched wrongly")
	}
}
