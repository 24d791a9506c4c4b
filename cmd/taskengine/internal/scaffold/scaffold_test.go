package scaffold

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAScaffoldHasTheSourcesOfItsPackage(t *testing.T) {
	for lang, files := range map[string][]string{
		"go":     {"sdk/LICENSE", "sdk/go.mod", "sdk/task/task.go", "sdk/steps/flow.go", "sdk/plugins/handler/serve.go", "sdk/plugins/internal/wire/handler.pb.go", "go.sum"},
		"python": {"taskengine/LICENSE", "taskengine/__init__.py", "taskengine/_wire.py", "taskengine/py.typed"},
		"node":   {"sdk/LICENSE", "sdk/package.json", "sdk/src/index.ts", "sdk/handler.proto", "sdk/buf.gen.yaml"},
		"java":   {"sdk/LICENSE", "sdk/pom.xml", "sdk/src/main/java/io/github/taskengine/handler/Handlers.java", "sdk/handler.proto", "sdk/taskengine.proto"},
	} {
		folder, err := New(lang, t.TempDir(), "mailer")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
				t.Errorf("the scaffold for %s: %v", lang, err)
			}
		}
		for _, name := range []string{"sdk/pom.xml", "sdk/buf.gen.yaml"} {
			if text, err := os.ReadFile(filepath.Join(folder, name)); err == nil && strings.Contains(string(text), "../..") {
				t.Errorf("in the scaffold for %s %s names a file outside of it", lang, name)
			}
		}
	}
}

func TestEveryScaffoldHasWhatAProjectNeeds(t *testing.T) {
	for _, lang := range Languages() {
		folder, err := New(lang, t.TempDir(), "mailer")
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"README.md", "taskengine.yaml", ".gitignore"} {
			if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == name }) {
				t.Errorf("the scaffold for %s has no %s", lang, name)
			}
		}
	}
}

func TestAProjectInGoHasEveryPackageThatItsSourcesImport(t *testing.T) {
	const module = "github.com/taskengine/taskengine/"
	folder, err := New("go", t.TempDir(), "mailer")
	if err != nil {
		t.Fatal(err)
	}
	sdk := filepath.Join(folder, sdkFolder)
	files := 0
	err = filepath.WalkDir(sdk, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			path, own := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module)
			if _, err := os.Stat(filepath.Join(sdk, path)); own && err != nil {
				t.Errorf("%s imports %s, which the project does not have: add it to vendored and to sources.go", name, path)
			}
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Errorf("%d files were read: %v", files, err)
	}
}
