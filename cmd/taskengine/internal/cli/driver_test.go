package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// storeOf makes a store with one task in a folder of its own.
func storeOf(t *testing.T, driver config.Driver) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "data")
	s, err := openStore(t.Context(), config.Storage{Driver: driver, Path: folder}, nil)
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

// TestAStoreOfTheOtherDriverIsRefused has every command that opens a store meet the wrong one:
// it names the right one, and leaves the folder as it is.
func TestAStoreOfTheOtherDriverIsRefused(t *testing.T) {
	for _, driver := range []config.Driver{config.Bolt, config.Pebble} {
		wrong := config.Bolt
		if driver == config.Bolt {
			wrong = config.Pebble
		}
		t.Run(embedded(driver), func(t *testing.T) {
			folder := storeOf(t, driver)
			mistaken := embedded(wrong) + ":" + folder
			right := embedded(driver) + ":" + folder
			file := write(t, "taskengine.yaml", fmt.Sprintf("storage: {driver: %s, path: %q}\nhandlers: {copy: {exec: [/bin/cat]}}\ntypes: {copy: {}}\n", embedded(wrong), folder))
			before := listOf(t, folder)
			fresh := filepath.Join(t.TempDir(), "new")
			for _, args := range [][]string{
				{"run", "-c", file, "--set", "api.listen=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0"},
				{"backup", fresh, "--from", mistaken},
				{"doctor", mistaken},
				{"copy", "--from", mistaken, "--to", embedded(driver) + ":" + fresh},
				{"copy", "--from", embedded(driver) + ":" + storeOf(t, driver), "--to", mistaken},
				{"config", "check", "-c", file},
			} {
				r := cli(t, nil, "", args...)
				if r.code == exitOK || !strings.Contains(r.stderr, "is of the driver "+embedded(driver)) {
					t.Errorf("%q ends with %d: %s", args, r.code, r.stderr)
				}
			}
			if after := listOf(t, folder); after != before {
				t.Errorf("the folder had %s and has %s", before, after)
			}
			doctor(t, exitOK, right)
		})
	}
}

// TestTwoStoresInOneFolderAreTold has a folder that an earlier version has made two stores in.
func TestTwoStoresInOneFolderAreTold(t *testing.T) {
	folder, other := storeOf(t, config.Pebble), storeOf(t, config.Bolt)
	if err := os.Rename(filepath.Join(other, boltFile), filepath.Join(folder, boltFile)); err != nil {
		t.Fatal(err)
	}
	for _, driver := range []config.Driver{config.Bolt, config.Pebble} {
		doctor(t, exitOK, embedded(driver)+":"+folder).has(t, isWarning, "driver", "a store of bolt")
		s, err := openStore(t.Context(), config.Storage{Driver: driver, Path: folder}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := countOf(t, s); n != 1 {
			t.Errorf("the store of %s has %d tasks", embedded(driver), n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func countOf(t *testing.T, s storage.Store) (all int64) {
	t.Helper()
	counts, err := s.(storage.Inspector).Count(context.WithoutCancel(t.Context()), storage.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range counts {
		all += n
	}
	return all
}

func listOf(t *testing.T, folder string) string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(entries)
}

func TestConfigCheckSaysWhatRoomPebbleNeeds(t *testing.T) {
	for driver, told := range map[string]bool{"pebble": true, "bolt": false} {
		file := write(t, "taskengine.yaml", fmt.Sprintf("storage: {driver: %s, path: %q}\nhandlers: {copy: {exec: [/bin/cat]}}\ntypes: {copy: {}}\n", driver, filepath.Join(t.TempDir(), "data")))
		r := cli(t, nil, "", "config", "check", "-c", file)
		if r.code != exitOK || strings.Contains(r.stderr, "256 MiB") != told {
			t.Errorf("%s: %+v", driver, r)
		}
	}
	if s := littleRoom("data", 200<<20, 10<<20); !strings.Contains(s, "200 MiB") {
		t.Errorf("with little room it says %q", s)
	}
	if s := littleRoom("data", 200<<20, 100<<20); s != "" {
		t.Errorf("with what it has taken already it says %q", s)
	}
}

// TestAStoreWithADamagedLogIsRefusedAndSalvaged changes a bit in the middle of a log.
func TestAStoreWithADamagedLogIsRefusedAndSalvaged(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	s, err := openStore(t.Context(), config.Storage{Driver: config.Pebble, Path: folder}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := s.Insert(t.Context(), &task.Task{ID: task.ID{byte(i + 1)}, Version: 1, State: task.Submitted, Type: "mail", Payload: make([]byte, 2000)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	log := logs[len(logs)-1]
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	content[100_000] ^= 4
	if err := os.WriteFile(log, content, 0o600); err != nil {
		t.Fatal(err)
	}
	doctor(t, exitFailure, "pebble:"+folder).has(t, isError, "open", filepath.Base(log))
	fresh := filepath.Join(t.TempDir(), "new")
	if r := cli(t, nil, "", "copy", "--from", "pebble:"+folder, "--to", "bolt:"+fresh); r.code != exitFailure || !strings.Contains(r.stderr, "--salvage") {
		t.Errorf("without --salvage: %+v", r)
	}
	if r := cli(t, nil, "", "copy", "--from", "pebble:"+folder, "--to", "bolt:"+fresh, "--salvage"); r.code != exitOK || !strings.Contains(r.stderr, "later changes are missing") {
		t.Errorf("with --salvage: %+v", r)
	}
	doctor(t, exitOK, "bolt:"+fresh).has(t, isInfo, "tasks", "4")
}

// TestAStoreWithoutItsManifestIsNoEmptyFolder removes the file that names the files of a store.
func TestAStoreWithoutItsManifestIsNoEmptyFolder(t *testing.T) {
	folder := storeOf(t, config.Pebble)
	s, err := openStore(t.Context(), config.Storage{Driver: config.Pebble, Path: folder}, nil) // sorts the log into a file
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	marks, err := filepath.Glob(filepath.Join(folder, "marker.manifest.*"))
	if err != nil || len(marks) != 1 {
		t.Fatal(marks, err)
	}
	if err := os.Remove(marks[0]); err != nil {
		t.Fatal(err)
	}
	doctor(t, exitFailure, "pebble:"+folder).has(t, isError, "open", "no manifest")
	if _, err := openStore(t.Context(), config.Storage{Driver: config.Bolt, Path: folder}, nil); err == nil {
		t.Error("a store of bolt was made beside it")
	}
}
