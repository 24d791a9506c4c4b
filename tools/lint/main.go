// Lint does on all packages below a directory what `go vet` and staticcheck do. It checks the types of each package once,
// from its source, and keeps them in memory. Both commands have the compiler write them, with code that nothing runs; they
// read them again for each package that imports it, and store what they find. So lint needs less than a fifth of their
// time if nothing is stored, and more than they need after a small change.
//
// With -types it instead checks the types of the packages and their tests for another platform, where it finds what does
// not build. It needs less than a tenth of the time of the compiler.
//
//	go -C tools run ./lint [-types GOOS/GOARCH[/race],...] $PWD
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/build"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/appends"
	"golang.org/x/tools/go/analysis/passes/asmdecl"
	"golang.org/x/tools/go/analysis/passes/assign"
	"golang.org/x/tools/go/analysis/passes/atomic"
	"golang.org/x/tools/go/analysis/passes/bools"
	"golang.org/x/tools/go/analysis/passes/buildtag"
	"golang.org/x/tools/go/analysis/passes/cgocall"
	"golang.org/x/tools/go/analysis/passes/composite"
	"golang.org/x/tools/go/analysis/passes/copylock"
	"golang.org/x/tools/go/analysis/passes/defers"
	"golang.org/x/tools/go/analysis/passes/directive"
	"golang.org/x/tools/go/analysis/passes/errorsas"
	"golang.org/x/tools/go/analysis/passes/framepointer"
	"golang.org/x/tools/go/analysis/passes/hostport"
	"golang.org/x/tools/go/analysis/passes/httpresponse"
	"golang.org/x/tools/go/analysis/passes/ifaceassert"
	"golang.org/x/tools/go/analysis/passes/loopclosure"
	"golang.org/x/tools/go/analysis/passes/lostcancel"
	"golang.org/x/tools/go/analysis/passes/nilfunc"
	"golang.org/x/tools/go/analysis/passes/printf"
	"golang.org/x/tools/go/analysis/passes/shift"
	"golang.org/x/tools/go/analysis/passes/sigchanyzer"
	"golang.org/x/tools/go/analysis/passes/slog"
	"golang.org/x/tools/go/analysis/passes/stdmethods"
	"golang.org/x/tools/go/analysis/passes/stdversion"
	"golang.org/x/tools/go/analysis/passes/stringintconv"
	"golang.org/x/tools/go/analysis/passes/structtag"
	"golang.org/x/tools/go/analysis/passes/testinggoroutine"
	"golang.org/x/tools/go/analysis/passes/tests"
	"golang.org/x/tools/go/analysis/passes/timeformat"
	"golang.org/x/tools/go/analysis/passes/unmarshal"
	"golang.org/x/tools/go/analysis/passes/unreachable"
	"golang.org/x/tools/go/analysis/passes/unsafeptr"
	"golang.org/x/tools/go/analysis/passes/unusedresult"
	"golang.org/x/tools/go/analysis/passes/waitgroup"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/config"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

// vet has the analyzers of `go vet`.
var vet = []*analysis.Analyzer{
	appends.Analyzer, asmdecl.Analyzer, assign.Analyzer, atomic.Analyzer, bools.Analyzer, buildtag.Analyzer, cgocall.Analyzer,
	composite.Analyzer, copylock.Analyzer, defers.Analyzer, directive.Analyzer, errorsas.Analyzer, framepointer.Analyzer,
	hostport.Analyzer, httpresponse.Analyzer, ifaceassert.Analyzer, loopclosure.Analyzer, lostcancel.Analyzer, nilfunc.Analyzer,
	printf.Analyzer, shift.Analyzer, sigchanyzer.Analyzer, slog.Analyzer, stdmethods.Analyzer, stdversion.Analyzer,
	stringintconv.Analyzer, structtag.Analyzer, testinggoroutine.Analyzer, tests.Analyzer, timeformat.Analyzer, unmarshal.Analyzer,
	unreachable.Analyzer, unsafeptr.Analyzer, unusedresult.Analyzer, waitgroup.Analyzer,
}

// static returns the analyzers of staticcheck.
func static() []*analysis.Analyzer {
	var all []*analysis.Analyzer
	for _, a := range slices.Concat(simple.Analyzers, staticcheck.Analyzers, stylecheck.Analyzers, []*lint.Analyzer{unused.Analyzer}) {
		all = append(all, a.Analyzer)
	}
	return all
}

func main() {
	platforms := flag.String("types", "", "check only the types, for these `platforms`")
	flag.Parse()
	if flag.NArg() != 1 || !filepath.IsAbs(flag.Arg(0)) {
		fmt.Fprintln(os.Stderr, "usage: lint [-types GOOS/GOARCH[/race],...] ABSOLUTE-DIRECTORY")
		os.Exit(2)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300) // most of the memory is needed until the end
	}
	dir, failed := flag.Arg(0), false
	if *platforms != "" {
		for platform := range strings.SplitSeq(*platforms, ",") {
			if err := checkTypes(dir, platform); err != nil {
				fmt.Fprintf(os.Stderr, "%s:\n%v\n", platform, err)
				failed = true
			}
		}
	} else {
		found, err := check(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		for _, f := range found {
			if name, err := filepath.Rel(dir, f.at.Filename); err == nil {
				f.at.Filename = name
			}
			fmt.Println(f)
		}
		failed = err != nil || len(found) > 0
	}
	if failed {
		os.Exit(1)
	}
}

// checkTypes loads the packages below dir and their tests for a platform, and returns their errors. A platform that ends with /race is
// built with the race detector.
func checkTypes(dir, platform string) error {
	platform, isRace := strings.CutSuffix(platform, "/race")
	system, architecture, ok := strings.Cut(platform, "/")
	sizes := types.SizesFor("gc", architecture)
	if !ok || sizes == nil {
		return fmt.Errorf("%q is not GOOS/GOARCH or GOOS/GOARCH/race", platform)
	}
	env := []string{"GOOS=" + system, "GOARCH=" + architecture}
	if isRace {
		env = append(env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -tags=race")
	}
	all, err := load(dir, env...)
	if err != nil {
		return err
	}
	return errorsOf(analyse(all, sizes, nil))
}

func (f finding) String() string { return fmt.Sprintf("%s: %s (%s)", f.at, f.message, f.check) }

// check analyses the packages below dir and returns the findings.
func check(dir string) ([]finding, error) {
	conf, err := config.Load(dir)
	if err != nil {
		return nil, err
	}
	wanted, err := chosen(conf.Checks)
	if err != nil {
		return nil, err
	}
	all, err := load(dir)
	if err != nil {
		return nil, err
	}
	units := analyse(all, types.SizesFor("gc", build.Default.GOARCH), slices.Concat(vet, static()))
	if err := errorsOf(units); err != nil {
		return nil, err
	}
	found := map[finding]bool{}
	for _, u := range units {
		for _, f := range u.found {
			if wanted(f.check) {
				found[f] = true
			}
		}
	}
	if wanted(unused.Analyzer.Analyzer.Name) {
		for _, f := range unusedIn(units) {
			found[f] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.at.Filename, b.at.Filename), cmp.Compare(a.at.Offset, b.at.Offset), cmp.Compare(a.message, b.message))
	}), nil
}

// chosen returns whether the configuration of staticcheck selects a check. It always selects the checks of vet.
func chosen(checks []string) (func(name string) bool, error) {
	without := map[string]bool{}
	for i, c := range checks {
		name, not := strings.CutPrefix(c, "-")
		if not == (i == 0) || i == 0 && name != "all" || strings.Contains(name, "*") {
			return nil, fmt.Errorf(`staticcheck.conf: checks are %q, and should be "all" and names of checks with a minus sign`, checks)
		}
		without[strings.ToLower(name)] = not
	}
	return func(name string) bool { return !without[strings.ToLower(name)] }, nil
}

// unusedIn returns the objects that no variant of their package uses.
func unusedIn(units []*unit) []finding {
	type place struct {
		path, base, name string
		line             int
	}
	placeOf := func(u *unit, o unused.Object) place {
		return place{u.path(), filepath.Base(o.Position.Filename), o.Name, o.Position.Line}
	}
	used := map[place]bool{}
	for _, u := range units {
		for _, o := range u.unused.Used {
			used[placeOf(u, o)] = true
		}
	}
	var found []finding
	for _, u := range units {
		for _, o := range u.unused.Unused {
			if !used[placeOf(u, o)] {
				found = append(found, finding{o.DisplayPosition, unused.Analyzer.Analyzer.Name, fmt.Sprintf("%s %s is unused", o.Kind, o.Name)})
			}
		}
	}
	return found
}
