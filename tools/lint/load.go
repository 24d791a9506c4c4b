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
	"strings"
)

// listed is a package as `go list` prints it. A package that is compiled again for the test of another has the path of
// the test in its ImportPath.
type listed struct {
	ImportPath, Dir                           string
	GoFiles, CgoFiles                         []string
	SFiles, IgnoredGoFiles, IgnoredOtherFiles []string
	Imports                                   []string
	ImportMap                                 map[string]string // from paths in the source to those in Imports, where they differ
	Module                                    *struct {
		Path, Version, GoVersion string
		Main                     bool
	}
}

// fields are those of listed. The go command looks for embedded files if they are asked for.
const fields = "ImportPath,Dir,GoFiles,CgoFiles,SFiles,IgnoredGoFiles,IgnoredOtherFiles,Imports,ImportMap,Module," +
	"EmbedFiles,TestEmbedFiles,XTestEmbedFiles"

// load returns all packages below dir with their tests, and the packages that these import, each after its imports. env
// is added to the environment of the go command, and selects a platform.
func load(dir string, env ...string) ([]listed, error) {
	cmd := exec.Command("go", "list", "-test", "-deps", "-json="+fields, "./...")
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
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
		if !strings.HasSuffix(l.ImportPath, ".test") && l.ImportPath != "unsafe" { // the former is the generated main package
			all = append(all, l)
		}
	}
}

// inside says whether the package is of the module that is examined.
func (l listed) inside() bool { return l.Module != nil && l.Module.Main }

// path is the import path without the test that it is compiled for.
func (l listed) path() string {
	path, _, _ := strings.Cut(l.ImportPath, " ")
	return path
}

// source is a package with its syntax and types.
type source struct {
	files []*ast.File
	pkg   *types.Package
	info  *types.Info
}

// parse parses the files of a package and checks their types. find has each package that it imports. Without an info,
// it checks of packages of other modules only the declarations.
func (l listed) parse(fset *token.FileSet, sizes types.Sizes, info *types.Info, find func(path string) *types.Package) (source, []error) {
	var errs []error
	if len(l.CgoFiles) > 0 {
		errs = append(errs, fmt.Errorf("%s: files that use cgo cannot be checked: %v", l.ImportPath, l.CgoFiles))
	}
	s := source{info: info}
	mode := parser.ParseComments
	if info == nil || !l.inside() {
		mode |= parser.SkipObjectResolution // some checks of vet use objects, but only to find what is wrong
	}
	for _, name := range l.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(l.Dir, name)
		}
		f, err := parser.ParseFile(fset, name, nil, mode)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.files = append(s.files, f)
	}
	config := types.Config{
		Sizes:            sizes,
		IgnoreFuncBodies: info == nil && !l.inside(),
		Error:            func(err error) { errs = append(errs, err) },
		Importer: importer(func(path string) (*types.Package, error) {
			if path == "unsafe" {
				return types.Unsafe, nil
			}
			if to, ok := l.ImportMap[path]; ok {
				path = to
			}
			if p := find(path); p != nil {
				return p, nil
			}
			return nil, fmt.Errorf("package %s has not been loaded", path)
		}),
	}
	if l.Module != nil && l.Module.GoVersion != "" {
		config.GoVersion = "go" + l.Module.GoVersion
	}
	s.pkg, _ = config.Check(l.path(), fset, s.files, info) // Error has had the errors
	return s, errs
}

// newInfo returns an info for all that analyzers ask for.
func newInfo() *types.Info {
	return &types.Info{
		Types:        map[ast.Expr]types.TypeAndValue{},
		Defs:         map[*ast.Ident]types.Object{},
		Uses:         map[*ast.Ident]types.Object{},
		Implicits:    map[ast.Node]types.Object{},
		Scopes:       map[ast.Node]*types.Scope{},
		Selections:   map[*ast.SelectorExpr]*types.Selection{},
		Instances:    map[*ast.Ident]types.Instance{},
		FileVersions: map[*ast.File]string{},
	}
}

type importer func(path string) (*types.Package, error)

// Import implements [types.Importer].
func (f importer) Import(path string) (*types.Package, error) { return f(path) }
