//go:build unix

package kafkatest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/servertest"
)

// flagsOfBroker returns flags of Java for a process that starts often and lives shortly. With -Xrs among them it ends by
// SIGQUIT, which the watchdog sends, and writes no list of threads instead; without it, SIGTERM has it end in order.
func flagsOfBroker(further ...string) []string {
	return append([]string{"-Xms64m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}, further...)
}

// archive returns the file with the classes of a broker, as Java has them in memory: with it a broker starts with less
// than half of the processor time. The first test on a machine makes it, and again when Java or Kafka has changed; tests
// in other processes wait for it. Java ignores a file that is not of its version and class path.
func archive(java, classes string) (string, error) {
	program, err := filepath.EvalSymlinks(java)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	folder := cache()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Append(nil, program, info.Size(), info.ModTime(), classes))
	file := filepath.Join(folder, fmt.Sprintf("kafka-%x.jsa", key[:8]))
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	lock, err := os.OpenFile(filepath.Join(folder, "kafka.lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // releases it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	earlier, err := filepath.Glob(filepath.Join(folder, "kafka-*.jsa"))
	for _, f := range earlier {
		err = errors.Join(err, os.Remove(f)) // brokers that run keep it
	}
	return file, errors.Join(err, record(file, classes))
}

// record runs a broker, and has Java archive the classes that it has used.
func record(file, classes string) error {
	part := file + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	c, err := start(classes, flagsOfBroker("-XX:ArchiveClassesAtExit="+part), 1)
	if err != nil {
		return err
	}
	err = errors.Join(c.exercise(), c.end(0, syscall.SIGTERM), c.Close())
	if err != nil {
		return err
	}
	return os.Rename(part, file)
}

// exercise has a broker do what tests ask for most.
func (c *Cluster) exercise() error {
	ctx, cancel := context.WithTimeout(context.Background(), servertest.Patience)
	defer cancel()
	const name = "exercise"
	client, err := Client(c.Brokers(), kgo.TransactionalID(name), kgo.DefaultProduceTopic(name))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 2, 1, nil, name); err != nil {
		return err
	}
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		if err := client.ProduceSync(ctx, kgo.StringRecord(name)).FirstErr(); err != nil {
			return err
		}
		if err := client.EndTransaction(ctx, end); err != nil {
			return err
		}
	}
	client.AddConsumeTopics(name)
	if err := client.PollFetches(ctx).Err(); err != nil {
		return err
	}
	if _, err := admin.ListEndOffsets(ctx, name); err != nil {
		return err
	}
	if _, err := admin.ListOffsetsAfterMilli(ctx, time.Now().UnixMilli(), name); err != nil {
		return err
	}
	if _, err := admin.DescribeTopicConfigs(ctx, name); err != nil {
		return err
	}
	if err := admin.CommitAllOffsets(ctx, name, kadm.Offsets{name: {0: {Topic: name, At: 1}}}); err != nil {
		return err
	}
	if _, err := admin.FetchOffsets(ctx, name); err != nil {
		return err
	}
	_, err = admin.DeleteTopics(ctx, name)
	return err
}
