//go:build !race

package arch_test

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// source is a package's parsed files without tests and generated ones.
type source struct {
	pkg
	set   *token.FileSet
	files []*ast.File
}

func parse(t *testing.T, p pkg) source {
	t.Helper()
	s := source{pkg: p, set: token.NewFileSet()}
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		f, err := parser.ParseFile(s.set, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if !ast.IsGenerated(f) {
			s.files = append(s.files, f)
		}
	}
	return s
}

func TestNoPackageDoesWorkWhenItIsImported(t *testing.T) {
	for _, p := range packages(t) {
		s := parse(t, p)
		for _, f := range s.files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%s: func init.\n\tWire by hand: let the caller call a function with a telling name.", s.set.Position(fn.Pos()))
				}
			}
		}
	}
}

// TestNoPackageVariableChanges type-checks each package alone, without its imports, and ignores
// the errors of that: they do not hide which names are package variables.
func TestNoPackageVariableChanges(t *testing.T) {
	for _, p := range packages(t) {
		s := parse(t, p)
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
		conf := types.Config{Importer: importer.ForCompiler(s.set, "none", nil), Error: func(error) {}, FakeImportC: true}
		checked, _ := conf.Check(p.Path, s.set, s.files, info)
		flag := func(e ast.Expr) {
			id := root(e)
			if id == nil {
				return
			}
			if v, ok := info.Uses[id].(*types.Var); ok && v.Parent() == checked.Scope() {
				t.Errorf("%s: the package variable %s changes.\n\tMake it a field of a value with one owner.", s.set.Position(e.Pos()), id.Name)
			}
		}
		for _, f := range s.files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					if n.Tok != token.DEFINE {
						for _, e := range n.Lhs {
							flag(e)
						}
					}
				case *ast.IncDecStmt:
					flag(n.X)
				}
				return true
			})
		}
	}
}

// root returns the variable that an assignment to e changes: x of x, x.f and x[i].
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

func TestWhatDecidesReadsNoClockAndNoGlobalChance(t *testing.T) {
	for _, p := range packages(t) {
		if !slices.Contains(deterministic, p.Path) {
			continue
		}
		s := parse(t, p)
		for _, f := range s.files {
			names := map[string]string{} // of imports, by the name they have in f
			for _, i := range f.Imports {
				path, _ := strconv.Unquote(i.Path.Value)
				name := filepath.Base(path)
				if path == "math/rand/v2" {
					name = "rand"
				}
				if i.Name != nil {
					name = i.Name.Name
				}
				names[name] = path
			}
			ast.Inspect(f, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, ok := sel.X.(*ast.Ident)
				if !ok {
					return true
				}
				switch names[x.Name] {
				case "time":
					if slices.Contains(forbiddenOfTime, sel.Sel.Name) {
						t.Errorf("%s: time.%s.\n\tCode that decides takes the time as an argument.", s.set.Position(sel.Pos()), sel.Sel.Name)
					}
				case "math/rand", "math/rand/v2":
					if !slices.Contains(allowedOfRand, sel.Sel.Name) {
						t.Errorf("%s: rand.%s.\n\tWhat decides draws from a source it was given: take a *rand.Rand.", s.set.Position(sel.Pos()), sel.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

func TestFilesStayReadable(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.Tests) {
			path := filepath.Join(p.Dir, name)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil || ast.IsGenerated(f) {
				continue
			}
			if lines := bytes.Count(text, []byte("\n")); lines > maxFileLines {
				t.Errorf("%s/%s has %d lines, more than %d.\n\tSplit it: one file, one idea.", p.Path, name, lines, maxFileLines)
			}
		}
	}
}
