//go:build !race

package postgres_test

import (
	"testing"

	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/internal/pgtest"
)

func TestPortsByWayOfPgBouncer(t *testing.T) {
	bouncer := server.Bouncer(t, "default_pool_size=60")
	bounce := func(url string) string { return pgtest.Through(bouncer, url) }
	ports(t, way{"and listening beside it", true, bounce, func(url string) setup {
		return setup{Options: postgres.Options{Listen: url}}
	}})
	ports(t, way{"alone, with simple statements", false, bounce, func(string) setup {
		return setup{Options: postgres.Options{Listen: postgres.ListenOff}, simple: true}
	}})
}
