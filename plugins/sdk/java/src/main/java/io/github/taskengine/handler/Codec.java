package io.github.taskengine.handler;

import com.google.protobuf.ByteString;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.core.JsonGenerator;
import tools.jackson.core.util.JsonGeneratorDelegate;
import tools.jackson.databind.json.JsonMapper;

/** Converts between values of Java and of the protocol. */
final class Codec {
  private static final long MICROS = 1_000_000;
  private static final int NANOS = 1_000;

  private final JsonMapper mapper;

  Codec(JsonMapper mapper) {
    this.mapper = mapper;
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
    ByteString.Output out = ByteString.newOutput();
    try (JsonGenerator json = new FiniteGenerator(mapper.createGenerator(out))) {
      mapper.writeValue(json, value);
    }
    return out.toByteString();
  }

  <T> T value(ByteString payload, Class<T> type) {
    try {
      T value = mapper.readValue(payload.toByteArray(), type);
      if (value != null) {
        return value;
      }
    } catch (JacksonException e) {
      throw badPayload(type, e.getOriginalMessage(), e);
    }
    throw badPayload(type, "it is null", null);
  }

  private static PermanentException badPayload(
      Class<?> type, String why, @Nullable Exception cause) {
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

  /** Refuses what is no number in JSON. Jackson would write it as a text. */
  private static final class FiniteGenerator extends JsonGeneratorDelegate {
    FiniteGenerator(JsonGenerator to) {
      super(to, false);
    }

    @Override
    public JsonGenerator writeNumber(double number) {
      if (!Double.isFinite(number)) {
        throw new IllegalArgumentException(number + " is no JSON");
      }
      return super.writeNumber(number);
    }

    @Override
    public JsonGenerator writeNumber(float number) {
      if (!Float.isFinite(number)) {
        throw new IllegalArgumentException(number + " is no JSON");
      }
      return super.writeNumber(number);
    }

    @Override
    public JsonGenerator writeArray(double[] numbers, int from, int count) {
      writeStartArray(numbers, count);
      for (int i = from; i < from + count; i++) {
        writeNumber(numbers[i]);
      }
      return writeEndArray();
    }
  }
}
