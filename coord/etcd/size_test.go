//go:build unix

package etcd_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/etcd"
	"github.com/taskengine/taskengine/internal/etcdtest"
	"github.com/taskengine/taskengine/internal/logtest"
)

func TestWhatIsTooLargeForTheServersIsRefusedAndDisturbsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		flags   []string
		largest int
	}{
		"as by default":             {nil, 3 << 19},
		"more than the library has": {nil, 1 << 22},
		"configured to take less":   {[]string{"--max-request-bytes=50000"}, 50_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := start(t, 1, etcdtest.WithFlags(c.flags...))
			log := new(logtest.Buffer)
			n := connect(t, etcd.Options{Endpoints: servers.Endpoints(), Lease: time.Minute, Log: slog.New(slog.NewTextHandler(log, nil))})
			coordtest.RunSizes(t, n, log, c.largest)
		})
	}
}
