package pairs

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/internal/pgtest"
)

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // most of it is waiting for leases
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, errors.Join(err, stop()))
		os.Exit(1)
	}
	code := m.Run()
	failed := stop()
	if code == 0 {
		failed = errors.Join(failed, leak())
	}
	if failed != nil {
		fmt.Fprintln(os.Stderr, failed)
		code = max(code, 1)
	}
	os.Exit(code)
}

// leak returns an error if goroutines are left. Those that close a connection to ZooKeeper end by themselves, within
// some seconds.
func leak() (err error) {
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		if err = goleak.Find(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("goroutines are left: %w", err)
}

func start() (err error) {
	if server, err = pgtest.Start("max_connections=400"); err != nil {
		return err
	}
	return startOthers()
}

// stop ends the servers that were started.
func stop() error {
	failed := stopOthers()
	if server != nil {
		failed = errors.Join(failed, server.Close())
	}
	return failed
}
