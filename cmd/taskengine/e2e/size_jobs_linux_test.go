//go:build !race

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// sizeJobRate is the goal for the rate of a bulk job on pebble, in tasks in a second.
const sizeJobRate = 20_000

// benchmarkBulk has bulk jobs change many tasks: as fast as they can, and at a rate beside a load of other tasks. Set leaves an entry in the history of each
// task, and delete none.
func (s *size) benchmarkBulk(b *testing.B) {
	values := func(priority uint32) *taskenginev1.TaskValues {
		return &taskenginev1.TaskValues{Priority: new(priority)}
	}
	b.Run("set", func(b *testing.B) {
		s.benchmarkJob(b, &taskenginev1.BulkOrder{Verb: "set", Where: "state=error", Values: values(6)})
	})
	load := beginLoad(b, s.n.api, s.tokens[0], s.notes)
	defer load.end()
	time.Sleep(2 * time.Second)
	b.Run("beside", func(b *testing.B) { s.benchmarkBeside(b, load, values) })
	if s.rows > 1_000_000 { // more would be deleted than a job is measured with
		return
	}
	b.Run("delete", func(b *testing.B) {
		s.benchmarkJob(b, &taskenginev1.BulkOrder{Verb: "delete", Where: "state=done type=mail"})
	})
}

// benchmarkJob measures a job without a rate.
func (s *size) benchmarkJob(b *testing.B, order *taskenginev1.BulkOrder) {
	job := s.job(b, order, 0)
	took := job.GetEndedAt().AsTime().Sub(job.GetBegunAt().AsTime())
	rate := float64(job.GetChanged()) / took.Seconds()
	b.ReportMetric(float64(job.GetChanged()), "tasks")
	b.ReportMetric(rate, "tasks/s")
	b.ReportMetric(sizeJobRate/rate, "of-goal")
	b.ReportMetric(0, "ns/op")
}

// job runs a job to its end.
func (s *size) job(b *testing.B, order *taskenginev1.BulkOrder, rate float64) *taskenginev1.BulkJob {
	b.Helper()
	res, err := s.api.StartBulkJob(b.Context(), &taskenginev1.StartBulkJobRequest{Order: order, Rate: rate})
	if err != nil {
		b.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		got, err := s.api.GetBulkJob(b.Context(), &taskenginev1.GetBulkJobRequest{Name: res.GetJob().GetName()})
		switch job := got.GetJob(); {
		case err != nil:
			b.Fatal(err)
		case job.GetEndedAt() != nil:
			return job
		case time.Since(begin) > sizeLong:
			b.Fatalf("the job has not ended: %v", job)
		}
	}
}

// benchmarkBeside measures how long tasks wait for their start while a job changes tasks at a rate, in turns with as long without one. "of-alone" is the
// median of the ratios of the 99th percentiles.
func (s *size) benchmarkBeside(b *testing.B, load *sizeLoad, values func(uint32) *taskenginev1.TaskValues) {
	var ratios, rates []float64
	var with, without []time.Duration
	for i := range sizeRounds {
		begin := time.Now()
		job := s.job(b, &taskenginev1.BulkOrder{Verb: "set", Where: "state=error", Values: values(uint32(i))}, sizeJobRate)
		end := time.Now()
		rates = append(rates, float64(job.GetChanged())/job.GetEndedAt().AsTime().Sub(job.GetBegunAt().AsTime()).Seconds())
		time.Sleep(time.Second)
		alone := time.Now()
		time.Sleep(min(end.Sub(begin), 30*time.Second))
		over := time.Now()
		one, other := quantileOf(load.between(b, begin, end), 0.99), quantileOf(load.between(b, alone, over), 0.99)
		with, without, ratios = append(with, one), append(without, other), append(ratios, float64(one)/float64(other))
	}
	reportBeside(b, with, without, ratios)
	b.ReportMetric(medianOf(rates), "tasks/s")
}

// reportBeside reports 99th percentiles with something beside a load and without.
func reportBeside(b *testing.B, with, without []time.Duration, ratios []float64) {
	slices.Sort(with)
	slices.Sort(without)
	slices.Sort(ratios)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(with[len(with)/2]), "p99-ms")
	b.ReportMetric(ms(without[len(without)/2]), "p99-alone-ms")
	b.ReportMetric(ratios[len(ratios)/2], "of-alone")
	b.ReportMetric(ratios[len(ratios)/2]/1.5, "of-goal")
}

func medianOf(numbers []float64) float64 {
	slices.Sort(numbers)
	return numbers[len(numbers)/2]
}

// benchmarkDoctor compares the processor time of doctor with that of a backup.
func (s *size) benchmarkDoctor(b *testing.B) {
	s.stop(b)
	_, doctor, _ := s.command(b, "doctor", "pebble:"+s.folder)
	copied := filepath.Join(diskFolder(b), "backup")
	_, backup, _ := s.command(b, "backup", copied, "--from", "pebble:"+s.folder)
	if err := os.RemoveAll(copied); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(doctor.Seconds(), "doctor-cpu-s")
	b.ReportMetric(backup.Seconds(), "backup-cpu-s")
	b.ReportMetric(doctor.Seconds()/backup.Seconds()/2, "of-goal")
	b.ReportMetric(0, "ns/op")
}

// benchmarkDatabase measures doctor on PostgreSQL, while the node uses that.
func (s *size) benchmarkDatabase(b *testing.B) {
	took, cpu, _ := s.command(b, "doctor", s.url)
	b.ReportMetric(took.Seconds(), "s")
	b.ReportMetric(cpu.Seconds(), "doctor-cpu-s")
	b.ReportMetric(0, "ns/op")
}
