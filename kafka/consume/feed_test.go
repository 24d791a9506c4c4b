package consume

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/kafka"
)

// countedConn counts the bytes that arrive.
type countedConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

// counted returns a connection, and how many bytes have arrived on all that it has made.
func counted(brokers []string) (kafka.Connection, *atomic.Int64) {
	bytes := new(atomic.Int64)
	return kafka.Connection{Name: "main", Brokers: brokers, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return countedConn{conn, bytes}, err
	}}, bytes
}

// A partition that is full for a moment is not paused: the client would drop its fetched records, and fetch them again.
func TestRecordsAreFetchedOnceThoughTheirPartitionIsFullForAMoment(t *testing.T) {
	t.Parallel()
	const records = 8 * streamMost
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	plain, bytes := counted(fake.ListenAddrs())
	client, err := plain.Client(kgo.DefaultProduceTopic("a"), kgo.MaxBufferedRecords(records), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ConsumeTopics("a"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	value := make([]byte, 100) // one fetch brings more than streamMost records
	for i := range records {
		client.Produce(t.Context(), &kgo.Record{Value: fmt.Append(value, i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for read := 0; read < records; {
		fetched := client.PollFetches(t.Context())
		if err := fetched.Err(); err != nil {
			t.Fatal(err)
		}
		read += fetched.NumRecords()
	}
	once := bytes.Load() // and a little more

	connection, bytes := counted(fake.ListenAddrs())
	f, err := openFeed(connection, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	in := f.open(place{"a", 0}, "", 0, -1)
	isFull := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return in.full
	}
	wasFull := 0
	for next := int64(0); next < records; {
		<-in.ready
		if isFull() {
			wasFull++
			time.Sleep(20 * time.Millisecond) // the moment
		}
		taken, _, err := in.take(records)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range taken {
			if r.Offset != next {
				t.Fatalf("record %d follows, want %d", r.Offset, next)
			}
			next++
		}
	}
	if got := bytes.Load(); got > once+mostShare/2 || wasFull == 0 {
		t.Errorf("%d bytes have arrived of %d, and the partition was full %d times", got, once, wasFull)
	}
}
