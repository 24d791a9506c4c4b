package pebble_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
)

// folderOfParent names the folder for a child process of this test binary to open.
const folderOfParent = "TASKENGINE_TEST_PEBBLE_FOLDER"

// lockedExit is the exit code of a child that found the folder locked.
const lockedExit = 42

func TestMain(m *testing.M) {
	if dir := os.Getenv(folderOfParent); dir != "" {
		_, err := pebble.Open(dir, small)
		if errors.Is(err, storage.ErrLocked) {
			os.Exit(lockedExit)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestAnotherProcessFindsTheFolderLocked(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, small)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), folderOfParent+"="+dir)
	out, err := child.CombinedOutput()
	exit := new(exec.ExitError)
	if !errors.As(err, &exit) || exit.ExitCode() != lockedExit {
		t.Fatalf("the other process ended with %v: %s", err, out)
	}
}
