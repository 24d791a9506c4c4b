//go:build unix

package postgres_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/internal/pgtest"
)

func identityOf(t *testing.T, n *node) coord.Identity {
	t.Helper()
	id, err := n.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestTheIdentityOfAClusterIsThatOfItsTables(t *testing.T) {
	url := database(t)
	prepare(t, url, "other")
	first := connect(t, url, setup{})
	id := identityOf(t, first)
	if id.Driver != "postgres" || id.ID == "" || !strings.Contains(id.Name, "schema taskengine") || strings.Contains(id.Name, "password") {
		t.Errorf("it is %+v", id)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Identity(t.Context()); !errors.Is(err, coord.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	through := pgtest.Through(server.Bouncer(t), url)
	for name, same := range map[string]*node{
		"after a restart":   connect(t, url, setup{}),
		"simple protocol":   connect(t, url, setup{simple: true}),
		"through PgBouncer": connect(t, through, setup{Options: postgres.Options{Listen: postgres.ListenOff}}),
	} {
		if got := identityOf(t, same); !got.Is(id) {
			t.Errorf("%s it is %v, and was %v", name, got, id)
		}
	}
	for name, other := range map[string]*node{
		"another schema":   connect(t, url, setup{Options: postgres.Options{Schema: "other"}}),
		"another database": connect(t, database(t), setup{}),
	} {
		if got := identityOf(t, other); got.Is(id) || got.ID == "" {
			t.Errorf("%s has %v, and the first %v", name, got, id)
		}
	}
}

func TestNodesThatStartAtOnceHaveOneIdentity(t *testing.T) {
	url := database(t)
	var wg sync.WaitGroup
	ids := make([]coord.Identity, 8)
	for i := range ids {
		n := connect(t, url, setup{})
		wg.Go(func() {
			var err error
			if ids[i], err = n.Identity(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if !id.Is(ids[0]) || id.ID == "" {
			t.Errorf("they are %v and %v", id, ids[0])
		}
	}
}
