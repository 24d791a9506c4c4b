package backup

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/task"
)

var silent = slog.New(slog.DiscardHandler)

// storeWith makes a store of bolt with n tasks.
func storeWith(t *testing.T, n int) stores.Location {
	t.Helper()
	p := stores.Location{Driver: config.Bolt, Path: filepath.Join(t.TempDir(), "data"), Name: "the store"}
	s, err := p.Open(t.Context(), silent)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := s.Insert(t.Context(), &task.Task{ID: task.ID{byte(i + 1)}, Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestABackupIsRestoredAsItWasTaken(t *testing.T) {
	from, folder := storeWith(t, 3), filepath.Join(t.TempDir(), "b")
	made, err := Take(t.Context(), from, folder, silent)
	if err != nil || made.Folder != folder || made.From != "the store" || made.Tasks != 3 || made.Bytes == 0 {
		t.Fatalf("it made %+v, %v", made, err)
	}
	m, err := ReadManifest(folder)
	if err != nil || m.Driver != "bolt" || m.Tasks != 3 || m.TakenAt.IsZero() || len(m.Files) != 1 {
		t.Fatalf("its manifest is %+v, %v", m, err)
	}
	if wrong, err := m.Verify(t.Context(), folder); err != nil || len(wrong) > 0 {
		t.Errorf("wrong are %v, %v", wrong, err)
	}
	to := stores.Location{Driver: config.Bolt, Path: filepath.Join(t.TempDir(), "back")}
	if made, err = Restore(t.Context(), to, folder, silent); err != nil || made.Tasks != 3 || made.From != folder {
		t.Errorf("it restored %+v, %v", made, err)
	}
	if _, err := Restore(t.Context(), to, folder, silent); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("restoring over a store says %v", err)
	}
	other := stores.Location{Driver: config.Pebble, Path: filepath.Join(t.TempDir(), "other")}
	if _, err := Restore(t.Context(), other, folder, silent); err == nil || !strings.Contains(err.Error(), "taskengine copy") {
		t.Errorf("restoring to another driver says %v", err)
	}
}

func TestABackupWithAFileThatChangedIsRefused(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "b")
	if _, err := Take(t.Context(), storeWith(t, 2), folder, silent); err != nil {
		t.Fatal(err)
	}
	if err := CheckUndamaged(t.Context(), folder); err != nil {
		t.Errorf("an undamaged backup: %v", err)
	}
	file := filepath.Join(folder, stores.BoltFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := append([]byte{}, whole...)
	changed[len(changed)-1] ^= 1
	for says, content := range map[string][]byte{"has other bytes": changed, "bytes instead of": whole[1:]} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		to := stores.Location{Driver: config.Bolt, Path: filepath.Join(t.TempDir(), "back")}
		if _, err := Restore(t.Context(), to, folder, silent); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("restoring it says %v, want %q", err, says)
		}
		if _, err := os.Stat(to.Path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the store was made: %v", err)
		}
		if err := CheckUndamaged(t.Context(), folder); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the check says %v, want %q", err, says)
		}
	}
	if err := os.Remove(filepath.Join(folder, ManifestName)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadManifest(folder); !errors.Is(err, ErrNoManifest) {
		t.Errorf("without a manifest: %v", err)
	}
	if err := CheckUndamaged(t.Context(), folder); err != nil {
		t.Errorf("a folder that is no backup: %v", err)
	}
}

func TestAStoreInUseIsAskedOfItsNode(t *testing.T) {
	p := storeWith(t, 1)
	s, err := p.Open(t.Context(), silent)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	within := t.TempDir()
	for admin, code := range map[string]int{"127.0.0.1:1": exit.Unavailable, "ftp://x": exit.Usage} {
		p.Admin = admin
		if _, err := Take(t.Context(), p, filepath.Join(within, "b"), silent); exit.Code(err) != code || !strings.Contains(err.Error(), "--admin") {
			t.Errorf("with the admin listener at %s: %v", admin, err)
		}
	}
	if left, err := os.ReadDir(within); err != nil || len(left) > 0 {
		t.Errorf("left behind are %v, %v", left, err)
	}
}
