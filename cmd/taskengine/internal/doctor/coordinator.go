package doctor

import (
	"context"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/coordinator"
	"github.com/taskengine/taskengine/config"
)

// examineCoordinator looks at the coordinator of a configuration.
func examineCoordinator(ctx context.Context, found *Findings, c config.Coordination) {
	if c.Driver != config.Etcd {
		return
	}
	h, err := coordinator.EtcdHistory(ctx, c)
	switch {
	case err != nil:
		found.add(Warning, "etcd", err.Error(), "nodes that cannot use their coordinator start no task under limits of the cluster, and starting nodes wait for it",
			"start it, or correct coordination.endpoints")
	case h.Compacted:
		found.info("etcd", "it was compacted; its newest revision is %d", h.Revision)
	default:
		found.add(Warning, "etcd", "it was never compacted", "etcd keeps each change of each key until it is compacted, and its disk fills up; "+
			"then it gives no leases, and no node can start", "start its servers with --auto-compaction-retention, such as 1h; if they have it, and were started for the first time less than that ago, nothing")
	}
}
