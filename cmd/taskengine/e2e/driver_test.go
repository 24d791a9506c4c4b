//go:build !race

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
)

// openStore opens the store of a driver in a folder, which is made if it is not there.
func openStore(t *testing.T, driver, folder string) storage.Store {
	t.Helper()
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	var s storage.Store
	var err error
	if driver == "bolt" {
		s, err = bolt.Open(filepath.Join(folder, boltFile), bolt.Options{})
	} else {
		s, err = pebble.Open(folder, pebble.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// storeOf makes a store with one task in a folder of its own.
func storeOf(t *testing.T, driver string) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "data")
	s := openStore(t, driver, folder)
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
	t.Parallel()
	for _, driver := range []string{"bolt", "pebble"} {
		wrong := "bolt"
		if driver == "bolt" {
			wrong = "pebble"
		}
		t.Run(driver, func(t *testing.T) {
			folder := storeOf(t, driver)
			mistaken := wrong + ":" + folder
			right := driver + ":" + folder
			file := write(t, "taskengine.yaml", fmt.Sprintf("storage: {driver: %s, path: %q}\nhandlers: {copy: {exec: [/bin/cat]}}\ntypes: {copy: {}}\n", wrong, folder))
			before := listOf(t, folder)
			fresh := filepath.Join(t.TempDir(), "new")
			for _, args := range [][]string{
				{"run", "-c", file, "--set", "api.listen=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0"},
				{"backup", fresh, "--from", mistaken},
				{"doctor", mistaken},
				{"copy", "--from", mistaken, "--to", driver + ":" + fresh},
				{"copy", "--from", driver + ":" + storeOf(t, driver), "--to", mistaken},
				{"config", "check", "-c", file},
			} {
				r := cli(t, nil, "", args...)
				if r.code == exitOK || !strings.Contains(r.stderr, "is of the driver "+driver) {
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

// TestTwoStoresInOneFolderAreReported has a folder that an earlier version has made two stores in.
func TestTwoStoresInOneFolderAreReported(t *testing.T) {
	t.Parallel()
	folder, other := storeOf(t, "pebble"), storeOf(t, "bolt")
	if err := os.Rename(filepath.Join(other, boltFile), filepath.Join(folder, boltFile)); err != nil {
		t.Fatal(err)
	}
	for _, driver := range []string{"bolt", "pebble"} {
		doctor(t, exitOK, driver+":"+folder).has(t, isWarning, "driver", "a store of bolt")
		if said := backs(t, "backup", filepath.Join(t.TempDir(), "b"), "--from", driver+":"+folder); said.Tasks != 1 {
			t.Errorf("the store of %s has %d tasks", driver, said.Tasks)
		}
	}
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
	t.Parallel()
	for driver, warned := range map[string]bool{"pebble": true, "bolt": false} {
		file := write(t, "taskengine.yaml", fmt.Sprintf("storage: {driver: %s, path: %q}\nhandlers: {copy: {exec: [/bin/cat]}}\ntypes: {copy: {}}\n", driver, filepath.Join(t.TempDir(), "data")))
		r := cli(t, nil, "", "config", "check", "-c", file)
		if r.code != exitOK || strings.Contains(r.stderr, "256 MiB") != warned {
			t.Errorf("%s: %+v", driver, r)
		}
	}
}

// TestAStoreWithADamagedLogIsRefusedAndSalvaged changes a bit in the middle of a log.
func TestAStoreWithADamagedLogIsRefusedAndSalvaged(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	s := openStore(t, "pebble", folder)
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
	t.Parallel()
	folder := storeOf(t, "pebble")
	if err := openStore(t, "pebble", folder).Close(); err != nil { // opening sorts the log into a file
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
	if r := cli(t, nil, "", "copy", "--from", boltOf(t, 1), "--to", "bolt:"+folder); r.code != exitFailure || !strings.Contains(r.stderr, "is of the driver pebble") {
		t.Errorf("a copy to a store of bolt beside it: %+v", r)
	}
}
