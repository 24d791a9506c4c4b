package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/analysis"
	"honnef.co/go/tools/unused"
)

// unit is a package to analyse. Its goroutine owns it until done is closed; then it does not change.
type unit struct {
	listed
	imports []*unit
	done    chan struct{}

	pkg      *types.Package
	objects  map[reflect.Type]map[types.Object]analysis.Fact // facts about objects of the package
	packages map[reflect.Type]analysis.Fact                  // facts about the package
	found    []finding
	unused   unused.Result
	errs     []error
}

// finding is a diagnostic of a check.
type finding struct {
	at             token.Position
	check, message string
}

// run analyses all packages. Of packages of other modules it only finds the facts about their objects.
type run struct {
	fset       *token.FileSet
	sizes      types.Sizes
	all, facts []*analysis.Analyzer // each after those that it requires; facts are those that find facts

	mu    sync.Mutex
	units map[*types.Package]*unit // that are done; mu guards it
}

// analyse checks the types of all packages, and runs the analyzers, if any, on them.
func analyse(all []listed, sizes types.Sizes, analyzers []*analysis.Analyzer) []*unit {
	r := &run{fset: token.NewFileSet(), sizes: sizes, all: closure(analyzers), units: map[*types.Package]*unit{}}
	r.facts = closure(slices.DeleteFunc(slices.Clone(r.all), func(a *analysis.Analyzer) bool { return len(a.FactTypes) == 0 }))
	byPath := map[string]*unit{}
	var units []*unit
	for _, l := range all {
		u := &unit{listed: l, done: make(chan struct{}), objects: map[reflect.Type]map[types.Object]analysis.Fact{}, packages: map[reflect.Type]analysis.Fact{}}
		for _, i := range l.Imports {
			if d := byPath[i]; d != nil {
				u.imports = append(u.imports, d)
			}
		}
		byPath[l.ImportPath] = u
		units = append(units, u)
	}
	// Goroutines take packages in the order of the list, in which each package is after its imports: so a package waits
	// only for packages that others have taken.
	next := make(chan *unit)
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for u := range next {
				for _, d := range u.imports {
					<-d.done
				}
				r.unit(u)
				close(u.done)
			}
		})
	}
	for _, u := range units {
		next <- u
	}
	close(next)
	wait.Wait()
	return units
}

// closure returns the analyzers and all that they require.
func closure(analyzers []*analysis.Analyzer) []*analysis.Analyzer {
	var all []*analysis.Analyzer
	seen := map[*analysis.Analyzer]bool{}
	var add func(as []*analysis.Analyzer)
	add = func(as []*analysis.Analyzer) {
		for _, a := range as {
			if !seen[a] {
				seen[a] = true
				add(a.Requires)
				all = append(all, a)
			}
		}
	}
	add(analyzers)
	return all
}

func (r *run) unit(u *unit) {
	var info *types.Info
	if len(r.all) > 0 {
		info = newInfo()
	}
	s, errs := u.parse(r.fset, r.sizes, info, func(path string) *types.Package {
		for _, d := range u.imports {
			if d.ImportPath == path {
				return d.pkg
			}
		}
		return nil
	})
	u.pkg, u.errs = s.pkg, errs
	if len(errs) > 0 {
		return
	}
	analyzers := r.facts
	if u.inside() {
		analyzers = r.all
	}
	results := map[*analysis.Analyzer]any{}
	for _, a := range analyzers {
		result, err := a.Run(r.pass(u, s, a, results))
		if err != nil {
			u.errs = append(u.errs, fmt.Errorf("%s: %s: %w", u.ImportPath, a.Name, err))
			return
		}
		results[a] = result
	}
	u.unused, _ = results[unused.Analyzer.Analyzer].(unused.Result)
	if u.inside() {
		r.directives(u, s.files)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.units[u.pkg] = u
}

// directives finds comments by which staticcheck would ignore findings. Nothing here does.
func (r *run) directives(u *unit, files []*ast.File) {
	for _, f := range files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//lint:ignore ") || strings.HasPrefix(c.Text, "//lint:file-ignore ") {
					u.found = append(u.found, finding{r.fset.Position(c.Pos()), "lint", "findings cannot be ignored; change the code, or the checks in staticcheck.conf"})
				}
			}
		}
	}
}

// of returns the unit of a package that u imports or depends on.
func (r *run) of(u *unit, pkg *types.Package) *unit {
	if pkg == u.pkg {
		return u
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.units[pkg]
}

func (r *run) pass(u *unit, s source, a *analysis.Analyzer, results map[*analysis.Analyzer]any) *analysis.Pass {
	pass := &analysis.Pass{
		Analyzer: a, Fset: r.fset, Files: s.files, OtherFiles: u.inDir(u.SFiles), IgnoredFiles: u.inDir(slices.Concat(u.IgnoredGoFiles, u.IgnoredOtherFiles)),
		Pkg: s.pkg, TypesInfo: s.info, TypesSizes: r.sizes, ResultOf: results, ReadFile: os.ReadFile, Module: &analysis.Module{},
	}
	if m := u.Module; m != nil {
		pass.Module = &analysis.Module{Path: m.Path, Version: m.Version, GoVersion: m.GoVersion}
	}
	pass.Report = func(d analysis.Diagnostic) {
		if u.inside() {
			u.found = append(u.found, finding{r.fset.Position(d.Pos), a.Name, d.Message})
		}
	}
	pass.ExportObjectFact = func(obj types.Object, fact analysis.Fact) {
		kind := reflect.TypeOf(fact)
		if u.objects[kind] == nil {
			u.objects[kind] = map[types.Object]analysis.Fact{}
		}
		u.objects[kind][obj] = fact
	}
	pass.ExportPackageFact = func(fact analysis.Fact) { u.packages[reflect.TypeOf(fact)] = fact }
	pass.ImportObjectFact = func(obj types.Object, fact analysis.Fact) bool {
		d := r.of(u, obj.Pkg())
		return d != nil && set(fact, d.objects[reflect.TypeOf(fact)][obj])
	}
	pass.ImportPackageFact = func(pkg *types.Package, fact analysis.Fact) bool {
		d := r.of(u, pkg)
		return d != nil && set(fact, d.packages[reflect.TypeOf(fact)])
	}
	pass.AllObjectFacts = func() (all []analysis.ObjectFact) {
		for _, d := range u.known() {
			for _, kind := range a.FactTypes {
				for obj, fact := range d.objects[reflect.TypeOf(kind)] {
					all = append(all, analysis.ObjectFact{Object: obj, Fact: fact})
				}
			}
		}
		return all
	}
	pass.AllPackageFacts = func() (all []analysis.PackageFact) {
		for _, d := range u.known() {
			for _, kind := range a.FactTypes {
				if fact := d.packages[reflect.TypeOf(kind)]; fact != nil {
					all = append(all, analysis.PackageFact{Package: d.pkg, Fact: fact})
				}
			}
		}
		return all
	}
	return pass
}

// set reports whether there is a fact, and copies it.
func set(to, fact analysis.Fact) bool {
	if fact == nil {
		return false
	}
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(fact).Elem())
	return true
}

// known returns the packages about which an analyzer of u knows all facts: u and all that it depends on. The collections
// of facts are used by checks alone, so for packages that are not checked it is the package itself.
func (u *unit) known() []*unit {
	if !u.inside() {
		return []*unit{u}
	}
	seen := map[*unit]bool{}
	var add func(u *unit)
	add = func(u *unit) {
		if !seen[u] {
			seen[u] = true
			for _, d := range u.imports {
				add(d)
			}
		}
	}
	add(u)
	return slices.Collect(maps.Keys(seen))
}

func (l listed) inDir(names []string) []string {
	var all []string
	for _, name := range names {
		all = append(all, filepath.Join(l.Dir, name))
	}
	return all
}

// errorsOf returns the errors of all packages. Those of a package are also those of its variant with tests.
func errorsOf(units []*unit) error {
	var errs []error
	seen := map[string]bool{}
	for _, u := range units {
		for _, err := range u.errs {
			if !seen[err.Error()] {
				seen[err.Error()] = true
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
