package io.github.taskengine.json;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.util.JsonGeneratorDelegate;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.reflect.Type;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * JSON by a mapper of Jackson 2. The application has that library: the package does not bring it.
 */
public final class Jackson2 implements Json {
  private final ObjectMapper mapper;

  /**
   * Makes JSON by a mapper.
   *
   * @param mapper of the application
   */
  public Jackson2(ObjectMapper mapper) {
    this.mapper = Objects.requireNonNull(mapper, "mapper");
  }

  @Override
  public byte[] encode(Object value) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    try (JsonGenerator json = new FiniteGenerator(mapper.createGenerator(out))) {
      mapper.writeValue(json, value);
    } catch (JsonProcessingException e) {
      throw new JsonException(e.getOriginalMessage(), e);
    } catch (IOException e) {
      throw new JsonException(e.getMessage(), e);
    }
    return out.toByteArray();
  }

  @Override
  public @Nullable Object decode(byte[] json, Type type) {
    try {
      return mapper.readValue(json, mapper.constructType(type));
    } catch (JsonProcessingException e) {
      throw new JsonException(e.getOriginalMessage(), e);
    } catch (IOException e) {
      throw new JsonException(e.getMessage(), e);
    }
  }

  /** Refuses numbers that JSON has not. Jackson would write them as texts. */
  private static final class FiniteGenerator extends JsonGeneratorDelegate {
    FiniteGenerator(JsonGenerator to) {
      super(to, false);
    }

    @Override
    public void writeNumber(double number) throws IOException {
      if (!Double.isFinite(number)) {
        throw new JsonException(number + " is no JSON", null);
      }
      super.writeNumber(number);
    }

    @Override
    public void writeNumber(float number) throws IOException {
      if (!Float.isFinite(number)) {
        throw new JsonException(number + " is no JSON", null);
      }
      super.writeNumber(number);
    }

    @Override
    public void writeArray(double[] numbers, int from, int count) throws IOException {
      writeStartArray(numbers, count);
      for (int i = from; i < from + count; i++) {
        writeNumber(numbers[i]);
      }
      writeEndArray();
    }
  }
}
