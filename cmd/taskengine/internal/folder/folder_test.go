package folder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestTheNamesOfNewFoldersAreMadeDurable(t *testing.T) {
	base := t.TempDir()
	var synced []string
	note := func(folder string) error {
		synced = append(synced, folder)
		return nil
	}
	if err := Make(filepath.Join(base, "a", "b", "data"), note); err != nil {
		t.Fatal(err)
	}
	if want := []string{base, filepath.Join(base, "a"), filepath.Join(base, "a", "b")}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
	synced = nil
	if err := Make(filepath.Join(base, "a", "b", "data"), note); err != nil || len(synced) > 0 {
		t.Errorf("of a folder that is there, synced %q: %v", synced, err)
	}
	failed := errors.New("the disk fails")
	if err := Make(filepath.Join(base, "c"), func(string) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

// TestWhatAKilledBackupHasLeftGoesWithTheNext has folders of a backup that runs, of one that was
// killed, and of another program.
func TestWhatAKilledBackupHasLeftGoesWithTheNext(t *testing.T) {
	within := t.TempDir()
	folder := filepath.Join(within, "nightly")
	runs, err := MakePartial(folder)
	if err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(within, ".nightly-partial-17")
	another := filepath.Join(within, ".nightly-partial-plans")
	for _, made := range []string{killed, another} {
		if err := os.MkdirAll(filepath.Join(made, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(killed, lockFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := MakePartial(folder)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{runs.Path: true, second.Path: true, another: true, killed: false} {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) == want {
			t.Errorf("%s is there: %t", name, err == nil)
		}
	}
	if err := errors.Join(runs.Finish(), second.Remove()); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
		t.Errorf("the finished folder has %v, %v", entries, err)
	}
	if _, err := os.Stat(second.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the removed folder is there: %v", err)
	}
}
