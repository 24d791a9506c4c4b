package io.github.taskengine.json;

import java.io.ByteArrayOutputStream;
import java.lang.reflect.Type;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.core.JsonGenerator;
import tools.jackson.core.util.JsonGeneratorDelegate;
import tools.jackson.databind.json.JsonMapper;

/**
 * JSON by a mapper of Jackson 3. The application has that library: the package does not bring it.
 */
public final class Jackson3 implements Json {
  private final JsonMapper mapper;

  /**
   * Makes JSON by a mapper.
   *
   * @param mapper of the application
   */
  public Jackson3(JsonMapper mapper) {
    this.mapper = Objects.requireNonNull(mapper, "mapper");
  }

  @Override
  public byte[] encode(Object value) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    try (JsonGenerator json = new FiniteGenerator(mapper.createGenerator(out))) {
      mapper.writeValue(json, value);
    } catch (JacksonException e) {
      throw new JsonException(e.getOriginalMessage(), e);
    }
    return out.toByteArray();
  }

  @Override
  public @Nullable Object decode(byte[] json, Type type) {
    try {
      return mapper.readValue(json, mapper.constructType(type));
    } catch (JacksonException e) {
      throw new JsonException(e.getOriginalMessage(), e);
    }
  }

  /** Refuses numbers that JSON has not. Jackson would write them as texts. */
  private static final class FiniteGenerator extends JsonGeneratorDelegate {
    FiniteGenerator(JsonGenerator to) {
      super(to, false);
    }

    @Override
    public JsonGenerator writeNumber(double number) {
      if (!Double.isFinite(number)) {
        throw new JsonException(number + " is no JSON", null);
      }
      return super.writeNumber(number);
    }

    @Override
    public JsonGenerator writeNumber(float number) {
      if (!Float.isFinite(number)) {
        throw new JsonException(number + " is no JSON", null);
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
