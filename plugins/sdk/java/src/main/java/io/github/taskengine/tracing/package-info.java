/** Spans of OpenTelemetry: {@link io.github.taskengine.tracing.Tracing}. */
@NullMarked
package io.github.taskengine.tracing;

import org.jspecify.annotations.NullMarked;
