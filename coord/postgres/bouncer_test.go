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
	ports(t, way{name: "and listening beside it", listen: true, to: bounce, setup: func(url string) setup {
		return setup{Options: postgres.Options{Listen: url}}
	}})
	ports(t, way{name: "alone, with simple statements", to: bounce, setup: func(string) setup {
		return setup{Options: postgres.Options{Listen: postgres.ListenOff}, simple: true}
	}})
}
