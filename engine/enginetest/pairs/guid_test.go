//go:build !race

package pairs

import (
	"log/slog"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/guid"
	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine/enginetest"
)

// A node that is cut off goes on to lead, beside another one: no scenario depends on who leads.
func TestPostgresAndPostgresWithRolesByMessages(t *testing.T) {
	t.Parallel()
	enginetest.RunCluster(t, onPostgres(func(t *testing.T, c *postgres.Coord) coord.Elector {
		messages, err := c.Messages()
		if err != nil {
			t.Fatal(err)
		}
		e, err := guid.New(messages, guid.Options{Lease: 3 * time.Second, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}))
}
