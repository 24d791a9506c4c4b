//go:build unix

package servertest_test

import (
	"errors"
	"testing"

	"github.com/taskengine/taskengine/internal/servertest"
)

// A port is given once, though nothing listens there yet.
func TestAPortIsGivenOnce(t *testing.T) {
	given := make(map[int]bool)
	for range 500 {
		port, err := servertest.AtFreePort(func(int) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if given[port] {
			t.Fatalf("port %d was given twice", port)
		}
		given[port] = true
	}
}

func TestAnErrorOfListenIsReturned(t *testing.T) {
	failed := errors.New("no")
	if _, err := servertest.AtFreePort(func(int) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("the error is %v", err)
	}
}
