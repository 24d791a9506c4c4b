package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Manages the tokens of the cluster: {@link TaskengineClient#tokens}. The client needs a token with
 * the role admin for all types.
 */
public final class Tokens {
  private final Calls calls;
  private final long timeout;

  Tokens(Calls calls, long timeout) {
    this.calls = calls;
    this.timeout = timeout;
  }

  /**
   * Makes a token that the nodes accept within about a second. The call is not repeated: without an
   * answer the token may be there, and {@link #rotate} gives it another secret.
   *
   * @param name 1 to 100 letters, digits, and . _ - @
   * @param roles at least one
   * @param types of tasks; * at the end of one stands for all that begin so; none: all types
   * @param expiresIn null: it does not expire
   * @param by who asks; may be empty
   * @return the token and its secret
   * @throws AlreadyExistsException if a valid token has the name
   */
  public NewSecret add(
      String name,
      List<String> roles,
      List<String> types,
      @Nullable Duration expiresIn,
      String by) {
    Api.AddTokenRequest.Builder request =
        Api.AddTokenRequest.newBuilder()
            .setName(name)
            .addAllRoles(roles)
            .addAllTypes(types)
            .setBy(by);
    if (expiresIn != null) {
      request.setExpiresIn(Times.duration(expiresIn));
    }
    Api.AddTokenResponse answer =
        calls.make(ClusterMethods.ADD_TOKEN, request.build(), false, timeout);
    return new NewSecret(ClusterMessages.token(answer.getToken()), answer.getSecret());
  }

  /**
   * The valid tokens.
   *
   * @return those of the cluster by name, and then those of the file of the node
   */
  public List<Token> list() {
    return list(false);
  }

  /**
   * The tokens, also those that were revoked or have expired in the last 30 days.
   *
   * @return those of the cluster by name, and then those of the file of the node
   */
  public List<Token> listRevoked() {
    return list(true);
  }

  private List<Token> list(boolean isRevoked) {
    Api.ListTokensRequest request =
        Api.ListTokensRequest.newBuilder().setRevoked(isRevoked).build();
    return Messages.all(
        calls.make(ClusterMethods.LIST_TOKENS, request, true, timeout).getTokensList(),
        ClusterMessages::token);
  }

  /**
   * Has the nodes refuse a token within about a second. Revoking it again changes nothing.
   *
   * @param name of the token
   * @param isForced also if no other valid token may manage tokens
   * @param by who asks; may be empty
   * @return the token
   */
  public Token revoke(String name, boolean isForced, String by) {
    Api.RevokeTokenRequest request =
        Api.RevokeTokenRequest.newBuilder().setName(name).setForce(isForced).setBy(by).build();
    return ClusterMessages.token(
        calls.make(ClusterMethods.REVOKE_TOKEN, request, true, timeout).getToken());
  }

  /**
   * Gives a token another secret. The call is not repeated.
   *
   * @param name of the token
   * @param grace for which the secret from before is accepted; null: it is not
   * @param by who asks; may be empty
   * @return the token and its new secret
   */
  public NewSecret rotate(String name, @Nullable Duration grace, String by) {
    Api.RotateTokenRequest.Builder request =
        Api.RotateTokenRequest.newBuilder().setName(name).setBy(by);
    if (grace != null) {
      request.setGrace(Times.duration(grace));
    }
    Api.RotateTokenResponse answer =
        calls.make(ClusterMethods.ROTATE_TOKEN, request.build(), false, timeout);
    return new NewSecret(ClusterMessages.token(answer.getToken()), answer.getSecret());
  }

  /**
   * Ends all sessions that a person has begun at the dashboard. Every node refuses them within
   * about a second, and the person may log in again.
   *
   * @param person the name in audit lines
   * @param by who asks; may be empty
   * @return the present: sessions that begin later go on
   * @throws NotAllowedException if people do not log in at an identity provider
   */
  public Instant revokeSessions(String person, String by) {
    Api.RevokeSessionsRequest request =
        Api.RevokeSessionsRequest.newBuilder().setPerson(person).setBy(by).build();
    return Times.instant(
        calls.make(ClusterMethods.REVOKE_SESSIONS, request, true, timeout).getBefore());
  }
}
