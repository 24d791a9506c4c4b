package io.github.taskengine.client;

import java.time.Duration;

/**
 * The outcome of a test of a target.
 *
 * @param target of the notification
 * @param problem why the target did not accept it; empty if it did
 * @param took how long it took
 */
public record AlertTest(String target, String problem, Duration took) {}
