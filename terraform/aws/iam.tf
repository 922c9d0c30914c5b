# ECS fetches images, secrets and writes logs as the execution role; what runs is the task role, which may do nothing
# but what the collector beside a dispatcher needs, and what task_policy_arns add.

data "aws_iam_policy_document" "assume" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [data.aws_caller_identity.this.account_id]
    }
  }
}

data "aws_iam_policy_document" "execution" {
  statement {
    sid       = "Logs"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.tasks.arn}:*"]
  }

  statement {
    sid       = "Secrets"
    actions   = ["secretsmanager:GetSecretValue"]
    resources = local.secret_arns
  }

  statement {
    sid       = "Images"
    actions   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    resources = ["arn:${data.aws_partition.this.partition}:ecr:${data.aws_region.this.region}:${data.aws_caller_identity.this.account_id}:repository/*"]
  }

  # this one has no resources
  statement {
    sid       = "ImagesLogin"
    actions   = ["ecr:GetAuthorizationToken"]
    resources = ["*"]
  }

  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]

    content {
      sid       = "Key"
      actions   = ["kms:Decrypt"]
      resources = [statement.value]
    }
  }
}

data "aws_iam_policy_document" "collector" {
  statement {
    sid       = "Metrics"
    actions   = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.metrics.arn}:*"]
  }
}

data "aws_iam_policy_document" "execute_command" {
  # these have no resources
  statement {
    sid = "Session"
    actions = [
      "ssmmessages:CreateControlChannel",
      "ssmmessages:CreateDataChannel",
      "ssmmessages:OpenControlChannel",
      "ssmmessages:OpenDataChannel",
    ]
    resources = ["*"]
  }
}

resource "aws_iam_role" "execution" {
  name_prefix        = "${var.name}-execution-"
  description        = "ECS, for the tasks of ${var.name}"
  assume_role_policy = data.aws_iam_policy_document.assume.json
  tags               = var.tags
}

resource "aws_iam_role_policy" "execution" {
  name   = "execution"
  role   = aws_iam_role.execution.id
  policy = data.aws_iam_policy_document.execution.json
}

resource "aws_iam_role" "task" {
  for_each = toset(["gateway", "dispatcher"])

  name_prefix        = "${var.name}-${each.key}-"
  description        = "The ${each.key}s of ${var.name}"
  assume_role_policy = data.aws_iam_policy_document.assume.json
  tags               = var.tags
}

resource "aws_iam_role_policy" "collector" {
  name   = "collector"
  role   = aws_iam_role.task["dispatcher"].id
  policy = data.aws_iam_policy_document.collector.json
}

resource "aws_iam_role_policy" "execute_command" {
  for_each = var.enable_execute_command ? aws_iam_role.task : {}

  name   = "execute-command"
  role   = each.value.id
  policy = data.aws_iam_policy_document.execute_command.json
}

resource "aws_iam_role_policy_attachment" "task" {
  for_each = var.task_policy_arns

  role       = aws_iam_role.task["dispatcher"].name
  policy_arn = each.value
}
