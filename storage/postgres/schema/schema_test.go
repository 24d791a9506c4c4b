package schema_test

import (
	"os"
	"testing"

	"github.com/taskengine/taskengine/internal/pgtest"
)

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	os.Exit(pgtest.Run(m, func(s *pgtest.Server) { server = s }))
}
