package io.github.taskengine.handler;

import java.time.Duration;

/** The answer of a handler in steps that is to be called again after a while. */
record Sleep(Duration delay, byte[] checkpoint) {}
