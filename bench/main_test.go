package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is its own plugin and node: role says which, and the store of a node.
const (
	role      = "TASKENGINE_BENCH_TEST_ROLE"
	nodeStore = "TASKENGINE_BENCH_TEST_STORE"
)

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(role) {
	case "plugin":
		err = ServePlugin(os.Args[1:])
	case "node":
		err = errors.New("there is no such store")
		for _, s := range stores {
			if s.name == os.Getenv(nodeStore) {
				err = ServeNode(context.Background(), os.Args[1], Options{Store: s.name, OpenStore: s.open})
			}
		}
	default:
		goleak.VerifyTestMain(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
