package stores

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// make1 makes a store with one task in a folder of its own.
func make1(t *testing.T, driver config.Driver) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "data")
	s, err := Open(t.Context(), config.Storage{Driver: driver, Path: folder}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Insert(t.Context(), &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestAFolderIsOpenedByTheDriverOfItsStoreAlone(t *testing.T) {
	for driver, wrong := range map[config.Driver]config.Driver{config.Bolt: config.Pebble, config.Pebble: config.Bolt} {
		folder := make1(t, driver)
		if got, err := In(folder); err != nil || got != driver {
			t.Errorf("the driver is %v, %v, want %v", got, err, driver)
		}
		if err := CheckDriver(folder, driver); err != nil {
			t.Error(err)
		}
		if err := CheckDriver(folder, wrong); !errors.Is(err, ErrOtherDriver) {
			t.Errorf("the check of the wrong driver says %v", err)
		}
		if _, err := Open(t.Context(), config.Storage{Driver: wrong, Path: folder}, nil); !errors.Is(err, ErrOtherDriver) {
			t.Errorf("opening with the wrong driver says %v", err)
		}
		if err := (Location{Driver: wrong, Path: folder}).Exists(); !errors.Is(err, ErrOtherDriver) {
			t.Errorf("the place of the wrong driver says %v", err)
		}
	}
	empty := t.TempDir()
	if _, err := In(empty); !errors.Is(err, ErrNone) {
		t.Errorf("an empty folder: %v", err)
	}
	if err := CheckDriver(empty, config.Bolt); err != nil {
		t.Errorf("a new store is refused: %v", err)
	}
	if _, err := (Location{Driver: config.Bolt, Path: empty}).Look(t.Context(), nil); !errors.Is(err, ErrNone) {
		t.Errorf("looking at an empty folder: %v", err)
	}
}

func TestEachOfTwoStoresInAFolderCanBeOpened(t *testing.T) {
	folder, other := make1(t, config.Pebble), make1(t, config.Bolt)
	if warning := WarnOfTwo(folder); warning != "" {
		t.Errorf("of one store it says %q", warning)
	}
	if err := os.Rename(filepath.Join(other, BoltFile), filepath.Join(folder, BoltFile)); err != nil {
		t.Fatal(err)
	}
	if warning := WarnOfTwo(folder); !strings.Contains(warning, "a store of bolt") {
		t.Errorf("of two stores it says %q", warning)
	}
	for _, driver := range []config.Driver{config.Bolt, config.Pebble} {
		s, err := Open(t.Context(), config.Storage{Driver: driver, Path: folder}, nil)
		if err != nil {
			t.Fatal(err)
		}
		counts, err := s.(storage.Inspector).Count(t.Context(), storage.Filter{})
		if err != nil || counts[storage.StateType{State: task.Submitted, Type: "mail"}] != 1 {
			t.Errorf("the store of %s has %v, %v", driver, counts, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAPlaceIsNamedByDriverURLOrConfiguration(t *testing.T) {
	load := func(file string) (*config.Config, error) {
		return config.Load("", []string{"storage.path=" + file, "admin.token=0123456789abcdef"}, func(string) (string, bool) { return "", false })
	}
	for arg, want := range map[string]string{
		"bolt:/data": "bolt:/data", "pebble:/data": "pebble:/data", "/of/a/file": "pebble:/of/a/file",
		"postgres://me:secret@db.example.com/tasks": "postgres:db.example.com:5432/tasks schema taskengine",
	} {
		if p, err := Parse(arg, "", load); err != nil || p.Name != want {
			t.Errorf("%s is named %q, %v, want %q", arg, p.Name, err, want)
		}
	}
	if p, err := Parse("postgres://db.example.com/tasks", "work", load); err != nil || p.Schema != "work" {
		t.Errorf("with a schema: %+v, %v", p, err)
	}
	for _, c := range []struct{ arg, schema string }{{"bolt:", ""}, {"bolt:/data", "work"}, {"postgres://db.example.com/tasks", "My Tasks"}} {
		if _, err := Parse(c.arg, c.schema, load); exit.Code(err) != exit.Usage {
			t.Errorf("%q with the schema %q: %v", c.arg, c.schema, err)
		}
	}
}

func TestDriversInFilesAreNamedByOneFileOfTheProgram(t *testing.T) {
	var naming []string
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "config.Pebble") || strings.Contains(string(text), "config.Bolt") {
			naming = append(naming, path)
		}
		return err
	})
	if err != nil || !slices.Equal(naming, []string{"../../internal/stores/drivers.go"}) {
		t.Errorf("%q, %v: describe a driver in Drivers, and ask for the description elsewhere", naming, err)
	}
}

func TestEveryDriverIsDescribed(t *testing.T) {
	for _, name := range []string{"pebble", "bolt", "memory", "postgres"} {
		d, ok := Named(name)
		if !ok || DriverOf(d.Of).Of != d.Of || d.open == nil || d.Of.InFiles() != (d.isIn != nil) || d.Of.InFiles() && d.look == nil {
			t.Errorf("%s is described as %+v", name, d)
		}
	}
	if got := Benched(); !slices.Equal(got, []string{"pebble", "bolt", "memory"}) {
		t.Errorf("benchmarks use %q", got)
	}
	if _, ok := Named("redis"); ok {
		t.Error("there is no driver redis")
	}
}
