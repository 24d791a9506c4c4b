//go:build unix

package etcd_test

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/etcd"
)

// BenchmarkSemaphore compares permits with a bare transaction of the same server: a key that is changed if it has a
// certain revision.
func BenchmarkSemaphore(b *testing.B) {
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	b.Run("transaction", func(b *testing.B) {
		revision := int64(0)
		for b.Loop() {
			answer, err := client.Txn(b.Context()).If(clientv3.Compare(clientv3.ModRevision("bare"), "=", revision)).
				Then(clientv3.OpPut("bare", "value")).Else(clientv3.OpGet("bare")).Commit()
			if err != nil {
				b.Fatal(err)
			}
			if revision = answer.Header.Revision; !answer.Succeeded {
				revision = answer.Responses[0].GetResponseRange().Kvs[0].ModRevision
			}
		}
	})
	n, err := etcd.New(etcd.Options{Endpoints: cluster.Endpoints(), Prefix: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Close() })
	coordtest.BenchmarkSemaphore(b, n)
}
