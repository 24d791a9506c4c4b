package adapter

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Config are the settings of an adapter.
type Config struct {
	Database  string        // DATABASE_URL
	Rate      float64       // PRODUCER_RATE, jobs a second, of an adapter that paces itself
	RateFile  string        // PRODUCER_RATE_CONTROL_FILE: has another rate, and may change; "" is none
	Tokens    bool          // PRODUCER_PACING=harness: ENQUEUE lines say how many jobs arrive
	BatchMax  int           // PRODUCER_BATCH_MAX, the most jobs of one insert
	BatchTime time.Duration // PRODUCER_BATCH_MS
	Workers   int           // WORKER_COUNT; 0 only inserts
	Payload   int           // JOB_PAYLOAD_BYTES
	Work      time.Duration // JOB_WORK_MS
	Every     time.Duration // SAMPLE_EVERY_S
	Instance  int           // BENCH_INSTANCE_ID; 0 inserts and counts, others only work
	Intervals bool          // PRESSURE_INTERVALS=1: print intervals and the end, and end with the standard input
}

// FromEnv reads the settings, by a function such as os.Getenv.
func FromEnv(getenv func(string) string) (Config, error) {
	var errs []error
	number := func(name string, otherwise, least int) int {
		text := getenv(name)
		if text == "" {
			return otherwise
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < least {
			errs = append(errs, fmt.Errorf("%s=%q: write a whole number of at least %d", name, text, least))
		}
		return n
	}
	c := Config{
		Database:  getenv("DATABASE_URL"),
		Rate:      float64(number("PRODUCER_RATE", 800, 0)),
		RateFile:  getenv("PRODUCER_RATE_CONTROL_FILE"),
		Tokens:    getenv("PRODUCER_PACING") == "harness",
		BatchMax:  number("PRODUCER_BATCH_MAX", 128, 1),
		BatchTime: time.Duration(number("PRODUCER_BATCH_MS", 10, 1)) * time.Millisecond,
		Workers:   number("WORKER_COUNT", 32, 0),
		Payload:   number("JOB_PAYLOAD_BYTES", 256, 0),
		Work:      time.Duration(number("JOB_WORK_MS", 1, 0)) * time.Millisecond,
		Every:     time.Duration(number("SAMPLE_EVERY_S", 5, 1)) * time.Second,
		Instance:  number("BENCH_INSTANCE_ID", 0, 0),
		Intervals: getenv("PRESSURE_INTERVALS") == "1",
	}
	if mode := getenv("PRODUCER_MODE"); mode != "" && mode != "fixed" {
		errs = append(errs, fmt.Errorf("PRODUCER_MODE=%q: only fixed is supported", mode))
	}
	if s := getenv("SCENARIO"); s != "" && s != "long_horizon" {
		errs = append(errs, fmt.Errorf("SCENARIO=%q: only long_horizon is supported", s))
	}
	return c, errors.Join(errs...)
}
