//go:build unix

package etcd_test

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/taskengine/taskengine/coord/etcd"
)

func TestTheHistorySaysWhetherEtcdWasEverCompacted(t *testing.T) {
	servers := start(t, 1)
	n := connect(t, etcd.Options{Endpoints: servers.Endpoints()})
	if _, _, err := n.Swap(t.Context(), "name", "scope", 0, []byte("value")); err != nil {
		t.Fatal(err)
	}
	before, err := n.History(t.Context())
	if err != nil || before.Compacted || before.Revision < 2 {
		t.Errorf("the history is %+v, %v", before, err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: servers.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := client.Compact(t.Context(), before.Revision); err != nil {
		t.Fatal(err)
	}
	if after, err := n.History(t.Context()); err != nil || !after.Compacted {
		t.Errorf("after a compaction the history is %+v, %v", after, err)
	}
}
