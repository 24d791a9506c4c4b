//go:build !race

package client_test

import (
	"bytes"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// named are the packages outside the standard library that the public identifiers may show.
var named = []string{
	"github.com/taskengine/taskengine/client",
	"github.com/taskengine/taskengine/task",
	"google.golang.org/grpc", // Options.Dial
}

// No exported identifier of this package has a type of the messages of the API, in its signature, its fields or its methods.
func TestThePublicTypesAreThoseOfThePackage(t *testing.T) {
	s := sweep{seen: make(map[types.Type]bool), found: make(map[string][]string)}
	scope := load(t, named[0])[named[0]].Scope()
	for _, name := range scope.Names() {
		if o := scope.Lookup(name); o.Exported() {
			s.look(o.Type(), name)
		}
	}
	if len(s.found[named[0]]) < 30 || s.found["github.com/taskengine/taskengine/task"] == nil || s.found["context"] == nil {
		t.Fatalf("the sweep has found types of %v only", s.found)
	}
	for path, where := range s.found {
		if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") && !slices.Contains(named, path) {
			t.Errorf("types of %s are public: %s", path, strings.Join(where, ", "))
		}
	}
}

// load returns packages as the compiler has exported them.
func load(t *testing.T, paths ...string) map[string]*types.Package {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	cmd := exec.Command("go", append(args, paths...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[path] = file
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("go list has no file of %s", path)
		}
		return os.Open(files[path])
	})
	loaded := make(map[string]*types.Package)
	for _, path := range paths {
		if loaded[path], err = imports.Import(path); err != nil {
			t.Fatal(err)
		}
	}
	return loaded
}

// sweep finds the packages of the types that exported identifiers show.
type sweep struct {
	seen  map[types.Type]bool
	found map[string][]string // by package: the identifiers that show its types
}

// look looks at a type that an identifier shows.
func (s *sweep) look(t types.Type, where string) {
	if s.seen[t] {
		return
	}
	s.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		s.name(t.Obj(), where)
		s.look(t.Rhs(), where)
	case *types.Named:
		s.name(t.Obj(), where)
		for a := range t.TypeArgs().Types() {
			s.look(a, where)
		}
		if o := t.Obj(); o.Pkg() != nil && o.Pkg().Path() == named[0] {
			s.look(t.Underlying(), where)
			for m := range t.Methods() {
				if m.Exported() {
					s.look(m.Type(), o.Name()+"."+m.Name())
				}
			}
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() || f.Embedded() {
				s.look(f.Type(), where+"."+f.Name())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			s.look(m.Type(), where+"."+m.Name())
		}
		for e := range t.EmbeddedTypes() {
			s.look(e, where)
		}
	case *types.Signature:
		for v := range t.Params().Variables() {
			s.look(v.Type(), where)
		}
		for v := range t.Results().Variables() {
			s.look(v.Type(), where)
		}
	case *types.Map:
		s.look(t.Key(), where)
		s.look(t.Elem(), where)
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		s.look(t.Elem(), where)
	}
}

func (s *sweep) name(o *types.TypeName, where string) {
	if o.Pkg() != nil {
		s.found[o.Pkg().Path()] = append(s.found[o.Pkg().Path()], where)
	}
}
