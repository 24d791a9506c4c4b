package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.slf4j.Marker;
import org.slf4j.event.KeyValuePair;
import org.slf4j.event.Level;
import org.slf4j.event.LoggingEvent;
import org.slf4j.helpers.AbstractLogger;
import org.slf4j.helpers.MessageFormatter;
import org.slf4j.spi.LoggingEventAware;

/** Sends the log lines of a run to the host, which decides which it keeps. */
final class RunLogger extends AbstractLogger implements LoggingEventAware {
  private static final long serialVersionUID = 1L;
  private static final int MAX_TEXT_BYTES = 8 << 10;
  private static final int MAX_FIELDS = 64;

  private final long runId;
  private final transient Outbox outbox;

  RunLogger(long runId, Outbox outbox) {
    this.name = "task";
    this.runId = runId;
    this.outbox = outbox;
  }

  @Override
  public void log(LoggingEvent event) {
    Object[] arguments = event.getArgumentArray();
    Wire.LogLine.Builder line =
        line(event.getLevel(), event.getMessage(), arguments, event.getThrowable());
    List<KeyValuePair> pairs = event.getKeyValuePairs();
    for (KeyValuePair pair : pairs == null ? List.<KeyValuePair>of() : pairs) {
      if (line.getFieldsCount() < MAX_FIELDS) {
        line.putFields(text(pair.key), text(pair.value));
      }
    }
    outbox.postLog(line.build());
  }

  @Override
  protected void handleNormalizedLoggingCall(
      Level level,
      @Nullable Marker marker,
      String message,
      Object @Nullable [] arguments,
      @Nullable Throwable thrown) {
    outbox.postLog(line(level, message, arguments, thrown).build());
  }

  private Wire.LogLine.Builder line(
      Level level,
      @Nullable String message,
      Object @Nullable [] arguments,
      @Nullable Throwable thrown) {
    Wire.LogLine.Builder line =
        Wire.LogLine.newBuilder()
            .setRunId(runId)
            .setLevel(number(level))
            .setTime(Codec.micros(Instant.now()))
            .setMessage(text(MessageFormatter.basicArrayFormat(message, arguments)));
    if (thrown != null) {
      StringWriter stack = new StringWriter();
      thrown.printStackTrace(new PrintWriter(stack));
      line.putFields("error", text(stack));
    }
    return line;
  }

  private static String text(@Nullable Object value) {
    return Codec.cut(String.valueOf(value), MAX_TEXT_BYTES);
  }

  private static int number(Level level) {
    return switch (level) {
      case TRACE -> -8;
      case DEBUG -> -4;
      case INFO -> 0;
      case WARN -> 4;
      case ERROR -> 8;
    };
  }

  @Override
  protected @Nullable String getFullyQualifiedCallerName() {
    return null;
  }

  @Override
  public boolean isTraceEnabled() {
    return true;
  }

  @Override
  public boolean isTraceEnabled(Marker marker) {
    return true;
  }

  @Override
  public boolean isDebugEnabled() {
    return true;
  }

  @Override
  public boolean isDebugEnabled(Marker marker) {
    return true;
  }

  @Override
  public boolean isInfoEnabled() {
    return true;
  }

  @Override
  public boolean isInfoEnabled(Marker marker) {
    return true;
  }

  @Override
  public boolean isWarnEnabled() {
    return true;
  }

  @Override
  public boolean isWarnEnabled(Marker marker) {
    return true;
  }

  @Override
  public boolean isErrorEnabled() {
    return true;
  }

  @Override
  public boolean isErrorEnabled(Marker marker) {
    return true;
  }
}
