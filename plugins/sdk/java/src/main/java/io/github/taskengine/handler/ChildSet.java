package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.UUID;

/**
 * How the children of one name have ended. They have the numbers from 0 to {@code added() - 1}. A
 * child that is in error has not ended: a person decides about it.
 */
public final class ChildSet {
  private final UUID parent;
  private final Wire.ChildSet wire;

  ChildSet(UUID parent, Wire.ChildSet wire) {
    this.parent = parent;
    this.wire = wire;
  }

  /**
   * The name that the children were added with.
   *
   * @return the name
   */
  public String name() {
    return wire.getName();
  }

  /**
   * How many were added.
   *
   * @return their number
   */
  public int added() {
    return wire.getAdded();
  }

  /**
   * How many are done.
   *
   * @return their number
   */
  public int done() {
    return wire.getDone();
  }

  /**
   * How many have failed for good.
   *
   * @return their number
   */
  public int failed() {
    return wire.getFailed();
  }

  /**
   * How many were cancelled.
   *
   * @return their number
   */
  public int cancelled() {
    return wire.getCancelled();
  }

  /**
   * How many have ended.
   *
   * @return their number
   */
  public int ended() {
    return done() + failed() + cancelled();
  }

  /**
   * Whether a child has ended.
   *
   * @param number of the child
   * @return true if so
   */
  public boolean hasEnded(int number) {
    int at = number / 8;
    return at < wire.getEnded().size() && (wire.getEnded().byteAt(at) & 1 << number % 8) != 0;
  }

  /**
   * The id of a child, where one database keeps the tasks.
   *
   * @param number of the child
   * @return the id
   */
  public UUID id(int number) {
    byte[] name = wire.getNameBytes().toByteArray();
    byte[] above = new byte[16];
    ByteBuffer.wrap(above)
        .putLong(parent.getMostSignificantBits())
        .putLong(parent.getLeastSignificantBits());
    byte[] digest = digest(above, name);
    byte[] made = new byte[16];
    System.arraycopy(above, 0, made, 0, 6);
    System.arraycopy(digest, 0, made, 6, 10);
    made[6] = (byte) (made[6] & 0x0f | 0x80);
    made[8] = (byte) (made[8] & 0x3f | 0x80);
    made[12] = (byte) (made[12] & 0xf0 | number >> 16 & 0x0f);
    made[13] = (byte) (number >> 8);
    made[14] = (byte) number;
    made[15] ^= (byte) number;
    if (number < wire.getShards().size()) {
      made[15] = (byte) (made[3] ^ made[7] ^ wire.getShards().byteAt(number));
    }
    ByteBuffer id = ByteBuffer.wrap(made);
    return new UUID(id.getLong(), id.getLong());
  }

  private static byte[] digest(byte[] parent, byte[] name) {
    try {
      MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
      sha256.update(parent);
      return sha256.digest(name);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("each Java has SHA-256", e);
    }
  }

  @Override
  public String toString() {
    return "%d of %d children \"%s\" done, %d failed, %d cancelled"
        .formatted(done(), added(), name(), failed(), cancelled());
  }
}
