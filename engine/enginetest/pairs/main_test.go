package pairs

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/internal/pgtest"
)

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // most of it is waiting for leases
	s, err := pgtest.Start("max_connections=400")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server = s
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := s.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}
