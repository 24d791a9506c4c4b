//go:build unix

package coordinator

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/zktest"
)

func TestAFileWithSASLOpensACoordinatorThatDemandsIt(t *testing.T) {
	servers, err := zktest.Start(1, zktest.WithUsers(map[string]string{"app": "secret"}), zktest.WithLines("sessionRequireClientSASLAuth=true"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	u := Use{Log: slog.New(slog.DiscardHandler)}
	opened, err := Open(t.Context(), fileOf(t, config.ZooKeeper, servers.Endpoints(), ", user: app, password: secret, auth: sasl"), u)
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
	for name, rest := range map[string]string{
		"a wrong password":  ", user: app, password: wrong, auth: sasl",
		"the scheme digest": ", user: app, password: secret",
		"no user":           "",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Open(t.Context(), fileOf(t, config.ZooKeeper, servers.Endpoints(), rest), u); !errors.Is(err, coord.ErrRefused) {
				t.Errorf("the error is %v, want a refusal", err)
			}
		})
	}
}
