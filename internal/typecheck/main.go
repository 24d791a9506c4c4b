// Typecheck loads the packages of the module in the current directory, with their tests, as the go command selects their
// files for other platforms, and checks their types. It generates no code, and of packages of other modules it checks only
// declarations, so that it needs less than a tenth of the time of the compiler. It exits with 1 if a package has an error.
//
//	go run ./internal/typecheck darwin/arm64...
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: typecheck GOOS/GOARCH...")
		os.Exit(2)
	}
	failed := false
	for _, platform := range os.Args[1:] {
		if err := check(".", platform); err != nil {
			fmt.Fprintf(os.Stderr, "%s:\n%v\n", platform, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// listed is a package as `go list` prints it. A package that is compiled again for the test of another has the path of
// the test in its ImportPath.
type listed struct {
	ImportPath, Dir   string
	GoFiles, CgoFiles []string
	Imports           []string
	ImportMap         map[string]string // from paths in the source to those in Imports, where they differ
	Module            *struct {
		GoVersion string
		Main      bool
	}
}

// fields are those of listed. The go command looks for embedded files if they are asked for.
const fields = "ImportPath,Dir,GoFiles,CgoFiles,Imports,ImportMap,Module,EmbedFiles,TestEmbedFiles,XTestEmbedFiles"

// load returns all packages below dir with their tests, and the packages that these import, each after its imports.
func load(dir, goos, goarch string) ([]listed, error) {
	cmd := exec.Command("go", "list", "-test", "-deps", "-json="+fields, "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the output of go list: %w", err)
		}
		if !strings.HasSuffix(l.ImportPath, ".test") { // the generated main package of a test
			all = append(all, l)
		}
	}
}

// checked is a package that is complete when done is closed. Its goroutine owns it until then.
type checked struct {
	done  chan struct{}
	types *types.Package
	errs  []error
}

// check loads the packages below dir for a platform and returns their errors.
func check(dir, platform string) error {
	goos, goarch, ok := strings.Cut(platform, "/")
	sizes := types.SizesFor("gc", goarch)
	if !ok || sizes == nil {
		return fmt.Errorf("%q is not GOOS/GOARCH", platform)
	}
	all, err := load(dir, goos, goarch)
	if err != nil {
		return err
	}
	packages := map[string]*checked{"unsafe": {done: make(chan struct{}), types: types.Unsafe}}
	close(packages["unsafe"].done)
	for _, l := range all {
		if l.ImportPath != "unsafe" {
			packages[l.ImportPath] = &checked{done: make(chan struct{})}
		}
	}
	files := token.NewFileSet()
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wait sync.WaitGroup
	for _, l := range all {
		if l.ImportPath == "unsafe" {
			continue
		}
		wait.Go(func() {
			p := packages[l.ImportPath]
			defer close(p.done)
			for _, i := range l.Imports {
				if d := packages[i]; d != nil {
					<-d.done
				}
			}
			turns <- struct{}{}
			defer func() { <-turns }()
			p.types, p.errs = l.check(files, sizes, func(path string) *checked { return packages[path] })
		})
	}
	wait.Wait()
	var errs []error
	seen := map[string]bool{} // errors of a package are also those of its variant with tests
	for _, l := range all {
		for _, err := range packages[l.ImportPath].errs {
			if !seen[err.Error()] {
				seen[err.Error()] = true
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// check parses the files of a package and checks their types. All packages that it imports are done.
func (l listed) check(files *token.FileSet, sizes types.Sizes, find func(path string) *checked) (*types.Package, []error) {
	var errs []error
	if len(l.CgoFiles) > 0 {
		errs = append(errs, fmt.Errorf("%s: files that use cgo cannot be checked: %v", l.ImportPath, l.CgoFiles))
	}
	var parsed []*ast.File
	for _, name := range l.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(l.Dir, name)
		}
		f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		parsed = append(parsed, f)
	}
	config := types.Config{
		Sizes:            sizes,
		IgnoreFuncBodies: l.Module == nil || !l.Module.Main,
		Error:            func(err error) { errs = append(errs, err) },
		Importer: importer(func(path string) (*types.Package, error) {
			if to, ok := l.ImportMap[path]; ok {
				path = to
			}
			if p := find(path); p != nil && p.types != nil {
				return p.types, nil
			}
			return nil, fmt.Errorf("package %s has not been loaded", path)
		}),
	}
	if l.Module != nil && l.Module.GoVersion != "" {
		config.GoVersion = "go" + l.Module.GoVersion
	}
	path, _, _ := strings.Cut(l.ImportPath, " ")
	pkg, _ := config.Check(path, files, parsed, nil) // Error has had the errors
	return pkg, errs
}

type importer func(path string) (*types.Package, error)

// Import implements [types.Importer].
func (f importer) Import(path string) (*types.Package, error) { return f(path) }
