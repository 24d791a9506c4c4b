package kafka_test

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/kafka"
)

// slowConn is a connection on which bytes arrive slowly.
type slowConn struct{ net.Conn }

func (c slowConn) Read(b []byte) (int, error) {
	if len(b) > 32<<10 {
		time.Sleep(100 * time.Millisecond)
		b = b[:32<<10]
	}
	return c.Conn.Read(b)
}

// A large answer arrives over a slow network, though it takes longer than a broker may take to begin with it.
func TestALargeAnswerArrivesOverASlowNetwork(t *testing.T) {
	t.Parallel()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	c := kafka.Connection{Name: "main", Brokers: fake.ListenAddrs(), Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return slowConn{conn}, err
	}}
	client, err := c.Client(kgo.RequestTimeoutOverhead(time.Second), kgo.ConsumeTopics("large"), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(2<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	want := bytes.Repeat([]byte("value"), 200_000) // 1 MB, which takes three seconds
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "large", Value: want}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := client.PollFetches(ctx).Records()
	if len(got) != 1 || !bytes.Equal(got[0].Value, want) {
		t.Errorf("%d records arrived", len(got))
	}
}
