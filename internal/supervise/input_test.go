//go:build unix

package supervise

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
)

// A node may be killed at any time. A program that it has just started must not take a part of its input for the whole.
func TestTheInputOfAProcessIsCompleteBeforeItBegins(t *testing.T) {
	errEnough := errors.New("enough")
	for _, size := range []int{0, 1, 64 << 10, 5 << 20} {
		input := bytes.Repeat([]byte{'x'}, size)
		_, err := StartPiped(exec.Command("true"), input, func(cmd *exec.Cmd) error {
			got, err := io.ReadAll(cmd.Stdin)
			if err != nil || !bytes.Equal(got, input) {
				t.Errorf("a program that begins finds %d bytes of input, not %d: %v", len(got), size, err)
			}
			return errEnough
		})
		if !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
	}
}

func TestAFileForInputIsLeftNowhere(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	f, err := removedFile()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}
