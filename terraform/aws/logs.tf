resource "aws_cloudwatch_log_group" "tasks" {
  name              = "/${var.name}/tasks"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

# metrics come as log lines (embedded metric format); the metrics outlive them
resource "aws_cloudwatch_log_group" "metrics" {
  name              = "/${var.name}/metrics"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

resource "aws_cloudwatch_log_group" "redis" {
  name              = "/${var.name}/redis"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}
