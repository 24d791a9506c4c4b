package io.github.taskengine.handler;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.github.taskengine.json.Json;
import io.github.taskengine.json.JsonException;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import org.jspecify.annotations.Nullable;

/** Converts between values of Java and of the protocol. */
final class Codec {
  private static final long MICROS = 1_000_000;
  private static final int NANOS = 1_000;

  private final Json json;

  Codec(Json json) {
    this.json = json;
  }

  Json json() {
    return json;
  }

  /**
   * The bytes of what a handler returns. What cannot be encoded is a permanent error of class
   * {@code bad_result}: another attempt would do the work once more, and end in the same way.
   */
  ByteString bytes(@Nullable Object value, String what) {
    try {
      return bytes(value);
    } catch (Exception | StackOverflowError e) { // a value may throw anything while it is encoded
      String text = what + " cannot be encoded: " + e;
      throw new PermanentException(text, "bad_result", e instanceof Exception ? e : null);
    }
  }

  private ByteString bytes(@Nullable Object value) throws CharacterCodingException {
    if (value == null) {
      return ByteString.EMPTY;
    }
    if (value instanceof byte[] bytes) {
      return ByteString.copyFrom(bytes);
    }
    if (value instanceof CharSequence text) {
      // Half of a pair of surrogates would become another text without a word.
      return ByteString.copyFrom(
          StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text.toString())));
    }
    return UnsafeByteOperations.unsafeWrap(json.encode(value));
  }

  @SuppressWarnings(
      "unchecked") // by the contract of Json, and a primitive type has no value of its own
  <T> T value(ByteString payload, Class<T> type) {
    try {
      Object value = json.decode(payload.toByteArray(), type);
      if (value != null) {
        return (T) value;
      }
    } catch (JsonException e) {
      throw badPayload(type, e.getMessage(), e);
    }
    throw badPayload(type, "it is null", null);
  }

  private static PermanentException badPayload(
      Class<?> type, @Nullable String why, @Nullable Exception cause) {
    String message = "the payload is not JSON for " + type.getSimpleName() + ": " + why;
    return new PermanentException(message, "bad_payload", cause);
  }

  /** A delay in microseconds, rounded up, and not negative. */
  static long micros(Duration delay) {
    if (delay.isNegative()) {
      return 0;
    }
    if (delay.getSeconds() >= Long.MAX_VALUE / MICROS) {
      return Long.MAX_VALUE;
    }
    return delay.getSeconds() * MICROS + (delay.getNano() + NANOS - 1) / NANOS;
  }

  /** A time in microseconds since 1970. */
  static long micros(Instant at) {
    if (Math.abs(at.getEpochSecond()) >= Long.MAX_VALUE / MICROS) {
      return at.getEpochSecond() < 0 ? Long.MIN_VALUE : Long.MAX_VALUE;
    }
    return at.getEpochSecond() * MICROS + at.getNano() / NANOS;
  }

  /** A text, if the protocol can represent it unchanged. */
  static String valid(String what, String text) {
    if (!StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
      throw new IllegalArgumentException("the " + what + " has half a surrogate pair");
    }
    return text;
  }

  /** The start of a text: at most so many bytes, and always valid UTF-8. */
  static String cut(String text, int most) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    int end = Math.min(bytes.length, most);
    while (end < bytes.length && end > 0 && (bytes[end] & 0xC0) == 0x80) {
      end--; // to the start of a character
    }
    return new String(bytes, 0, end, StandardCharsets.UTF_8);
  }
}
